"""A run by an environment's own functions, as SameStep has it, to compare a batch with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gymbridge.jax_env.translation import STEP_STREAM
from tests.support.trees import assert_same

__all__ = ["check_run", "play_plainly"]

DIGITS = 1e-6


def play_plainly(
    reset: Callable[..., Any], step: Callable[..., Any], actions: Any, *, seed: int = 0
) -> list[Any]:
    """Return observations, and for each step (final, reward, terminated, truncated, obs).

    Args:
        reset: (key) -> (state, obs), of one environment.
        step: (key, state, action) -> (state, obs, reward, terminated, truncated).
        actions: Tree of (T, num_envs, ...).
        seed: Of environment 0; environment i has ``seed + i``.
    """
    num_steps, num_envs = jax.tree.leaves(actions)[0].shape[:2]
    begin, advance = jax.jit(jax.vmap(reset)), jax.jit(jax.vmap(step))
    fold = jax.jit(jax.vmap(jax.random.fold_in))
    seeds = jax.vmap(jax.random.PRNGKey)(jnp.arange(seed, seed + num_envs, dtype=jnp.uint32))
    episodes, times = np.zeros(num_envs, np.uint32), np.zeros(num_envs, np.uint32)
    streams = jnp.full(num_envs, STEP_STREAM, jnp.uint32)
    keys = fold(seeds, episodes)
    state, obs = begin(keys)
    log: list[Any] = [obs]
    for index in range(num_steps):
        action = jax.tree.map(lambda leaf, at=index: leaf[at], actions)
        state, final, *others = advance(fold(fold(keys, streams), times), state, action)
        over = np.asarray(others[1] | others[2])
        obs, times = final, np.where(over, 0, times + 1).astype(np.uint32)
        if over.any():
            episodes += over
            keys = fold(seeds, episodes)
            pick = partial(_where, over)
            state, obs = jax.tree.map(pick, begin(keys), (state, obs))
        log.append((final, *others, obs))
    return log


def check_run(envs: Any, log: list[Any], actions: Any, *, seed: int = 0) -> int:
    """Compare a SameStep batch with such a run, and return how many episodes ended."""
    assert_same(envs.reset(seed=seed)[0], to_dicts(log[0]), digits=DIGITS)
    ends = 0
    for index, (final, reward, terminated, truncated, obs) in enumerate(log[1:]):
        action = jax.tree.map(lambda leaf, at=index: np.asarray(leaf)[at], actions)
        seen, rewards, terminations, truncations, infos = envs.step(action)
        assert_same(seen, to_dicts(obs), digits=DIGITS)
        assert_same(rewards, np.asarray(reward, rewards.dtype), digits=DIGITS)
        np.testing.assert_array_equal(terminations, terminated)
        np.testing.assert_array_equal(truncations, truncated & ~terminated)
        rows = np.flatnonzero(terminations | truncations)
        for row in rows:
            last = jax.tree.map(lambda leaf, at=row: leaf[at, ...], to_dicts(final))
            assert_same(to_dicts(infos["final_obs"][row]), last, digits=DIGITS)
        ends += len(rows)
    return ends


def to_dicts(tree: Any) -> Any:
    """Return named tuples as dicts."""
    if hasattr(tree, "_asdict"):
        tree = tree._asdict()
    if isinstance(tree, dict):
        return {key: to_dicts(value) for key, value in tree.items()}
    return np.asarray(tree)


def _where(over: np.ndarray, fresh: jax.Array, old: jax.Array) -> jax.Array:
    return jnp.where(over.reshape(over.shape + (1,) * (old.ndim - 1)), fresh, old)
