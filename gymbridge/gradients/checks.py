"""Whether torch's gradients can pass a JAX environment, checked before anything runs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from gymbridge.errors import EnvContractError
from gymbridge.jax_env.checks import check_float_actions
from gymbridge.jax_env.simulator import JaxSimulator
from gymbridge.jax_env.tracing import action_struct

__all__ = ["check_differentiable"]


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
    _check_reverse_mode(simulator)


def _check_reverse_mode(simulator: JaxSimulator) -> None:
    """Trace the gradient of one step; nothing is run."""

    def total(row: Any, action: Any) -> Any:
        leaves = jax.tree.leaves(simulator.step_row(row, action))
        return sum(jnp.sum(leaf) for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating))

    try:
        pull = jax.grad(total, argnums=(0, 1), allow_int=True)
        jax.eval_shape(pull, simulator.row, action_struct(simulator.single_action_space))
    except Exception as error:
        metadata, reason = simulator.env.metadata, f"{type(error).__name__}: {error}"
        if "Reverse-mode differentiation does not work" in str(error):
            reason = (
                "it iterates in a `lax.while_loop`, which reverse mode cannot pass. "
                f"{metadata.loop_advice}"
            )
        raise EnvContractError(
            f"`differentiable=True` cannot pass the step of {metadata.name}: {reason}"
        ) from error
