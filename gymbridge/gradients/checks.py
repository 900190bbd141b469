"""Whether torch's gradients can pass a functional environment, checked before anything runs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from gymbridge.errors import EnvContractError
from gymbridge.functional.protocol import FunctionalEnv, action_struct, check_float_actions

__all__ = ["check_differentiable"]


def check_differentiable(env: FunctionalEnv[Any], shapes: Any) -> None:
    """Raise unless a step of the environment has gradients.

    Args:
        env: The environment.
        shapes: Shapes and dtypes of one state.

    Raises:
        EnvContractError: Actions are not floats, the state has complex numbers, or reverse mode
            cannot pass `env.step`.
    """
    check_float_actions("differentiable=True", env.action_space)
    for leaf in jax.tree.leaves(shapes):
        if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
            raise EnvContractError(
                f"`differentiable=True` needs a state of real numbers, got {leaf.dtype} of shape "
                f"{leaf.shape}."
            )
    _check_reverse_mode(env, shapes)


def _check_reverse_mode(env: FunctionalEnv[Any], shapes: Any) -> None:
    """Trace the gradient of one step; nothing is run."""

    def total(state: Any, action: Any) -> Any:
        leaves = jax.tree.leaves(env.step(state, action))
        return sum(jnp.sum(leaf) for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating))

    try:
        pull = jax.grad(total, argnums=(0, 1), allow_int=True)
        jax.eval_shape(pull, shapes, action_struct(env.action_space))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        if "Reverse-mode differentiation does not work" in str(error):
            reason = (
                "it iterates in a `lax.while_loop`, which reverse mode cannot pass. "
                f"{env.facts.loop_advice}"
            )
        raise EnvContractError(
            f"`differentiable=True` cannot pass the step of {env.facts.name}: {reason}"
        ) from error
