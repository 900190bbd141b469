"""Where gradients pass a batch of Brax environments, and where they must not."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space, spaces

from gymbridge.backends.brax_contract import Contract, to_struct
from gymbridge.errors import EnvContractError

__all__ = [
    "check_float_actions",
    "check_real_state",
    "check_reverse_mode",
    "cut_gradients",
    "sever",
    "where_rows",
]


_LOOP = (
    "it iterates in a `lax.while_loop`, through which reverse mode does not go. MJX does so with "
    "more than one solver iteration: set `opt.iterations` to 1, as in `env.sys = "
    "env.sys.tree_replace({'opt.iterations': 1})`, and pass that environment, or use "
    "backend='generalized', 'spring' or 'positional'."
)


def check_real_state(contract: Contract) -> None:
    """Raise `EnvContractError` if a part of the state has gradients that no real number holds."""
    for leaf in jax.tree.leaves(contract.state):
        if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
            raise EnvContractError(
                f"`differentiable=True` needs a state of real numbers, got {leaf.dtype} of shape "
                f"{leaf.shape}."
            )


def check_float_actions(space: Space[Any]) -> None:
    """Raise `EnvContractError` unless actions have gradients."""
    if isinstance(space, spaces.Dict):
        for sub in space.spaces.values():
            check_float_actions(sub)
    elif not np.issubdtype(np.dtype(space.dtype), np.floating):
        raise EnvContractError(
            f"`differentiable=True` needs actions that have gradients, so floats, got {space}."
        )


def check_reverse_mode(contract: Contract) -> None:
    """Raise unless reverse mode passes the step of one environment; traces it, runs nothing."""

    def total(state: Any, action: Any) -> Any:
        leaves = jax.tree.leaves(contract.step(state, action))
        return sum(jnp.sum(leaf) for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating))

    try:
        pull = jax.grad(total, argnums=(0, 1), allow_int=True)
        jax.eval_shape(pull, contract.state, to_struct(contract.action_space))
    except Exception as error:
        backend = getattr(contract.brax_env, "backend", None)
        is_loop = "Reverse-mode differentiation does not work" in str(error)
        raise EnvContractError(
            f"`differentiable=True` cannot pass this environment's step (backend {backend!r}): "
            + (_LOOP if is_loop else f"{type(error).__name__}: {error}")
        ) from error


def cut_gradients(mask: jax.Array, tree: Any) -> Any:
    """Return the same values, through which no gradient passes in the rows under `mask`.

    Not even a NaN: the cotangent is selected, not multiplied by zero.
    """
    return where_rows(mask, jax.lax.stop_gradient(tree), tree)


def sever(step: Any) -> Any:
    """Return the step with a vjp that is exactly zero in the rows that diverged in it.

    Or began to: where a part of the physics that is not checked ceases to be finite, the row
    diverges later, and a slope of this step would turn that step's zero into NaN.

    Args:
        step: (env, actions) -> (env, (num_envs,) bool, rows that diverged).
    """
    severed = jax.custom_vjp(step)

    def forward(env: Any, actions: Any) -> Any:
        outputs, pull = jax.vjp(step, env, actions)
        after, diverged = outputs
        return outputs, (pull, diverged | _breaks(env.pipeline_state, after.pipeline_state))

    def backward(residuals: Any, cotangents: Any) -> Any:
        pull, broken = residuals
        return jax.tree.map(partial(_zero_rows, broken), pull(cotangents))

    severed.defvjp(forward, backward)
    return severed


def _breaks(before: Any, after: Any) -> jax.Array | bool:
    """Return (num_envs,) bool, rows where a number ceased to be finite; False without numbers."""
    broken: jax.Array | bool = False
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        if jnp.issubdtype(new.dtype, jnp.inexact):
            lost = jnp.isfinite(old) & ~jnp.isfinite(new)
            broken = broken | lost.reshape(lost.shape[0], -1).any(1)
    return broken


def _zero_rows(mask: jax.Array, cotangent: Any) -> Any:
    if cotangent.dtype == jax.dtypes.float0:  # of integers, which have no gradient
        return cotangent
    return where_rows(mask, jnp.zeros_like(cotangent), cotangent)


def where_rows(mask: jax.Array, chosen: Any, other: Any) -> Any:
    """Return rows of `chosen` under `mask` and rows of `other` elsewhere, leaf by leaf."""

    def pick(row: jax.Array, alternative: jax.Array) -> jax.Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (row.ndim - 1)), row, alternative)

    return jax.tree.map(pick, chosen, other)
