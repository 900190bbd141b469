"""One environment of a batch: how it begins and steps, and what is chosen row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gymbridge.core.episode import STEP_INFOS, TimeStep
from gymbridge.jax_env.traced import TracedEnv
from gymbridge.jax_env.tracing import KEY

__all__ = [
    "STEP_STREAM",
    "Row",
    "begin_rows",
    "cut_gradients",
    "drawn_part",
    "field_leaves",
    "reset_row",
    "step_row",
    "where_rows",
]

STEP_STREAM = 0x73746570
"""Folded into an episode's key for its steps, since `reset` may split or fold the key itself."""


class Row(NamedTuple):
    """One environment between two steps; in a batch every leaf leads with num_envs.

    The leaves of the environment's state are kept flat: flattening its classes in every call of the
    compiled step would cost more than the step of a small environment.
    """

    leaves: tuple[jax.Array, ...]  # of the environment's state
    seen: TimeStep  # the last time step, with the task's own flags; see `JaxSimulator.without_rest`
    key: jax.Array | None  # (2,) uint32, stream of the episode's steps; None if unread
    steps: jax.Array | None  # () uint32, simulator steps since the episode began; as `key`


def reset_row(env: TracedEnv, key: jax.Array, /, **options: Any) -> Row:
    """Return one row at the beginning of an episode."""
    state, seen = env.reset(key, options)
    stream = steps = None
    if env.reads_keys:
        stream, steps = jax.random.fold_in(key, STEP_STREAM), jnp.zeros((), jnp.uint32)
    return Row(tuple(jax.tree.leaves(state)), seen, stream, steps)


def _step(env: TracedEnv, row: Row, action: Any) -> Row:
    if row.key is None or row.steps is None:
        key, steps = jnp.zeros(KEY.shape, KEY.dtype), None
    else:
        key, steps = jax.random.fold_in(row.key, row.steps), row.steps + 1
    state, seen = env.step(key, env.unflatten(row.leaves), action)
    return Row(tuple(jax.tree.leaves(state)), seen, row.key, steps)


def step_row(
    env: TracedEnv, action_repeat: int, summed: Sequence[str], row: Row, action: Any
) -> Row:
    """Step one row `action_repeat` times, and stay where its episode ends.

    Rewards add up, and so do the infos with the names `summed`; all else is that of the last step.
    """
    stepped = _step(env, row, action)
    if action_repeat == 1:
        return stepped

    def again(_: Any, now: Row) -> Row:
        over = now.seen.terminated | now.seen.truncated
        later = _step(env, *cut_gradients(over, (now, action)))
        infos = [({name: seen.info[name] for name in summed}) for seen in (now.seen, later.seen)]
        info = {**later.seen.info, **jax.tree.map(jnp.add, *infos)}
        seen = later.seen._replace(reward=now.seen.reward + later.seen.reward, info=info)
        return where_rows(over, now, later._replace(seen=seen))

    return jax.lax.fori_loop(1, action_repeat, again, stepped)


def drawn_part(row: Row) -> Row:
    """Return what a reset decides of a row, or of rows; all else is zero when an episode begins."""
    info = {name: x for name, x in row.seen.info.items() if name not in STEP_INFOS}
    seen: Any = TimeStep(row.seen.obs, None, None, None, info)
    return Row(row.leaves, seen, row.key, None)


def begin_rows(mask: jax.Array, drawn: Row, rows: Row) -> Row:
    """Return rows with what was `drawn` of them, and zero for the rest under a (num_envs,) mask."""
    seen = rows.seen
    info = {name: seen.info[name] & ~mask for name in STEP_INFOS if name in seen.info}
    seen = TimeStep(
        drawn.seen.obs,
        jnp.where(mask, 0, seen.reward),
        seen.terminated & ~mask,
        seen.truncated & ~mask,
        {**drawn.seen.info, **info},
    )
    steps = rows.steps if rows.steps is None else jnp.where(mask, 0, rows.steps)
    return Row(drawn.leaves, seen, drawn.key, steps)


def where_rows(mask: jax.Array, chosen: Any, other: Any) -> Any:
    """Return rows of `chosen` under `mask` and rows of `other` elsewhere, leaf by leaf.

    The mask is (num_envs,) for a batch, and () for one row.
    """

    def pick(row: jax.Array, alternative: jax.Array) -> jax.Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (row.ndim - 1)), row, alternative)

    return jax.tree.map(pick, chosen, other)


def cut_gradients(mask: jax.Array, tree: Any) -> Any:
    """Return the same values, through which no gradient passes in the rows under `mask`.

    Not even a NaN: the cotangent is selected, not multiplied by zero.
    """
    return where_rows(mask, jax.lax.stop_gradient(tree), tree)


def field_leaves(row: Row) -> tuple[jax.Array, ...]:
    """Return the leaves of the environment's state and of the observation of one row."""
    return (*row.leaves, *jax.tree.leaves(row.seen.obs))
