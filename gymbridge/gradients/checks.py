"""Whether torch's gradients can pass a JAX environment, checked before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from gymbridge.errors import EnvContractError
from gymbridge.jax_env.checks import check_float_actions
from gymbridge.jax_env.simulator import JaxSimulator
from gymbridge.jax_env.tracing import KEY, action_struct

__all__ = ["check_differentiable", "check_options_differentiable"]


def check_differentiable(simulator: JaxSimulator) -> None:
    """Raise unless a step of an environment has gradients.

    Raises:
        EnvContractError: Actions are not floats, the state has complex numbers, or reverse mode
            cannot pass the step.
    """
    check_float_actions("differentiable=True", simulator.single_action_space)
    for leaf in simulator.row.leaves:
        if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
            raise EnvContractError(
                f"`differentiable=True` needs a state of real numbers, got {leaf.dtype} of shape "
                f"{leaf.shape}."
            )
    action = action_struct(simulator.single_action_space)
    given = "`differentiable=True` cannot pass the step"
    _check_reverse_mode(simulator, given, simulator.step_row, simulator.row, action)


def check_options_differentiable(simulator: JaxSimulator, options: dict[str, Any]) -> None:
    """Raise unless a reset has gradients with respect to its options, (num_envs, ...) each.

    Raises:
        EnvContractError: Reverse mode cannot pass the reset.
    """
    row = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), options)
    given = "A gradient of `options` cannot pass the reset"
    _check_reverse_mode(simulator, given, lambda key, x: simulator.reset_row(key, **x), KEY, row)


def _check_reverse_mode(
    simulator: JaxSimulator, problem: str, function: Callable[..., Any], *args: Any
) -> None:
    """Trace the gradient of a function of one row; nothing is run."""

    def total(*args: Any) -> Any:
        leaves = jax.tree.leaves(function(*args))
        return sum(jnp.sum(leaf) for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating))

    try:
        jax.eval_shape(jax.grad(total, argnums=tuple(range(len(args))), allow_int=True), *args)
    except Exception as error:
        metadata, reason = simulator.env.metadata, f"{type(error).__name__}: {error}"
        if "Reverse-mode differentiation does not work" in str(error):
            reason = (
                "it iterates in a `lax.while_loop`, which reverse mode cannot pass. "
                f"{metadata.loop_advice}"
            )
        raise EnvContractError(f"{problem} of {metadata.name}: {reason}") from error
