"""Rows of a batch: which are chosen, which are finite, and through which no gradient passes."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["are_finite", "cut_gradients", "make_finite", "sever", "where_rows"]


def where_rows(mask: jax.Array, chosen: Any, other: Any) -> Any:
    """Return rows of `chosen` under `mask` and rows of `other` elsewhere, leaf by leaf."""

    def pick(row: jax.Array, alternative: jax.Array) -> jax.Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (row.ndim - 1)), row, alternative)

    return jax.tree.map(pick, chosen, other)


def are_finite(tree: Any, num_envs: int) -> jax.Array:
    """Return (num_envs,) bool, True where every float of a row is finite."""
    finite = jnp.ones(num_envs, bool)
    for leaf in jax.tree.leaves(tree):
        if jnp.issubdtype(leaf.dtype, jnp.inexact):
            finite &= jnp.isfinite(leaf).reshape(num_envs, -1).all(1)
    return finite


def make_finite(leaf: jax.Array) -> jax.Array:
    """Return the values with 0 in place of those that are not finite."""
    if not jnp.issubdtype(leaf.dtype, jnp.inexact):
        return leaf
    return jnp.where(jnp.isfinite(leaf), leaf, 0)


def cut_gradients(mask: jax.Array, tree: Any) -> Any:
    """Return the same values, through which no gradient passes in the rows under `mask`.

    Not even a NaN: the cotangent is selected, not multiplied by zero.
    """
    return where_rows(mask, jax.lax.stop_gradient(tree), tree)


def sever(step: Any, physics_leaves: Any) -> Any:
    """Return the step with a vjp that is exactly zero in the rows that diverged in it.

    It is also zero where one of the `physics_leaves` stopped being finite. Such a row diverges in a
    later step, and the zero gradient from there, times an infinite slope in this one, would be NaN.

    Args:
        step: (state, actions) -> (state, (num_envs,) bool, rows that diverged).
        physics_leaves: Function from a state to the leaves whose overflow counts.
    """
    severed = jax.custom_vjp(step)

    def forward(state: Any, actions: Any) -> Any:
        outputs, pull = jax.vjp(step, state, actions)
        after, diverged = outputs
        broken = diverged | _breaks(physics_leaves(state), physics_leaves(after))
        # Second derivatives pass this function itself, so its outputs are cut there as well.
        return cut_gradients(broken, outputs), (pull, broken)

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
    if cotangent.dtype == jax.dtypes.float0:  # Integers have no gradient.
        return cotangent
    return where_rows(mask, jnp.zeros_like(cotangent), cotangent)
