"""What happens to an environment that produces NaN or Inf: it ends, or its batch raises.

The time step of a row that diverged is put right, and no gradient passes the step. The state of the
environment stays as the engine left it, until the row begins a new episode.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gymbridge.core.episode import NONFINITE, TimeStep
from gymbridge.errors import DivergedError
from gymbridge.jax_env.rows import Row, cut_gradients, where_rows
from gymbridge.jax_env.traced import TracedEnv

__all__ = ["check_divergence", "guard_reset", "guard_step"]


def guard_reset(reset: Callable[..., Row]) -> Callable[..., Row]:
    """Return the reset of one row with the info that says that it has not diverged."""

    def reset_row(key: jax.Array, /, **options: Any) -> Row:
        return _with_flag(reset(key, **options), jnp.zeros((), bool))

    return reset_row


def guard_step(env: TracedEnv, step: Callable[[Row, Any], Row]) -> Callable[[Row, Any], Row]:
    """Return the step of a batch, whose rows end with their last finite observation on NaN or Inf.

    Checked are observation, reward, and what the environment names as its positions.
    """

    def end(row: Row, action: Any) -> tuple[Row, jax.Array]:
        after = step(row, action)
        seen, positions = after.seen, env.positions(env.unflatten(after.leaves))
        diverged = ~_are_finite((seen.obs, seen.reward, positions))
        last, finite = (jax.tree.map(_make_finite, tree) for tree in (row.seen.obs, seen.info))
        info = where_rows(diverged, finite, seen.info)
        kept = {name: row.seen.info[name] for name in env.carried}
        seen = TimeStep(
            where_rows(diverged, last, seen.obs),
            jnp.where(diverged, 0, seen.reward),
            seen.terminated | diverged,
            seen.truncated & ~diverged,
            {**info, **where_rows(diverged, kept, {name: info[name] for name in kept})},
        )
        return after._replace(seen=seen), diverged

    def find_physics(row: Row) -> Any:
        return env.physics_leaves(env.unflatten(row.leaves))

    guarded = _zero_gradient_on_divergence(jax.vmap(end), jax.vmap(find_physics))

    def step_rows(rows: Row, actions: Any) -> Row:
        return _with_flag(*guarded(rows, actions))

    return step_rows


def _with_flag(row: Row, diverged: jax.Array) -> Row:
    info = {**row.seen.info, NONFINITE: diverged}
    return row._replace(seen=row.seen._replace(info=info))


def check_divergence(diverged: jax.Array) -> None:
    """Raise if a row of a step, (num_envs,) bool, produced NaN or Inf."""
    rows = np.flatnonzero(np.asarray(diverged))
    if rows.size:
        raise DivergedError(
            f"Environments {rows.tolist()} produced NaN or Inf, and the step was rolled back. "
            "Use other actions, reset them, or construct with `nonfinite='terminate'`."
        )


def _are_finite(row: Any) -> jax.Array:
    """Return () bool, whether every float of one row is finite."""
    floats = [leaf for leaf in jax.tree.leaves(row) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in floats]).all()


def _make_finite(leaf: jax.Array) -> jax.Array:
    """Return the values with 0 in place of those that are not finite."""
    if not jnp.issubdtype(leaf.dtype, jnp.inexact):
        return leaf
    return jnp.where(jnp.isfinite(leaf), leaf, 0)


def _zero_gradient_on_divergence(step: Any, physics_leaves: Any) -> Any:
    """Return the step of a batch with a vjp that is exactly zero in the rows that diverged in it.

    It is also zero where one of the `physics_leaves` of a row stopped being finite. Such a row
    diverges in a later step, and the zero gradient from there, times an infinite slope in this one,
    would be NaN. `step` returns the rows, and those that diverged as (num_envs,) bool.
    """
    guarded = jax.custom_vjp(step)

    def forward(state: Any, actions: Any) -> Any:
        outputs, pull = jax.vjp(step, state, actions)
        after, diverged = outputs
        broken = diverged | _breaks(physics_leaves(state), physics_leaves(after))
        # Second derivatives pass this function itself, so its outputs are cut there as well.
        return cut_gradients(broken, outputs), (pull, broken)

    def backward(residuals: Any, cotangents: Any) -> Any:
        pull, broken = residuals
        return jax.tree.map(partial(_zero_rows, broken), pull(cotangents))

    guarded.defvjp(forward, backward)
    return guarded


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
