"""Environments by their own functions of JAX, as the oracle steps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from gymbridge.jax_env.rows import STEP_STREAM
from tests.support.oracle import Answer, Oracle, Row

fold_in = jax.jit(jax.random.fold_in)


def make_oracle(
    envs: Any, reset: Callable[..., Any], step: Callable[..., Any], seeds: Sequence[int]
) -> Oracle:
    """Return the oracle of a batch, which compares no infos.

    Args:
        envs: The batch.
        reset: (key) -> (state, obs), of one environment.
        step: (key, state, action) -> (state, obs, reward, terminated, truncated).
        seeds: Episode k of an environment begins from ``fold_in(PRNGKey(seed), k)``.
    """
    functions = jax.jit(reset), jax.jit(step)
    rows = [Row(_OwnJax(*functions, seed), envs.max_episode_steps) for seed in seeds]
    return Oracle(envs, rows, rtol=1e-5, atol=1e-6)


class _OwnJax:
    """One environment."""

    def __init__(self, reset: Callable[..., Any], step: Callable[..., Any], seed: int) -> None:
        self._reset, self._step, self._key = reset, step, jax.random.PRNGKey(seed)
        self._episode = -1

    def begin(self) -> Answer:
        self._episode, self._elapsed = self._episode + 1, 0
        key = fold_in(self._key, self._episode)
        self._stream = fold_in(key, STEP_STREAM)
        self._state, obs = self._reset(key)
        return Answer(_to_dicts(obs), 0.0, False, False, None)

    def step(self, action: Any) -> Answer:
        key = fold_in(self._stream, self._elapsed)
        self._elapsed += 1
        self._state, obs, reward, *flags = self._step(key, self._state, action)
        return Answer(_to_dicts(obs), float(reward), *map(bool, flags), None)


def _to_dicts(tree: Any) -> Any:
    """Return named tuples as dicts."""
    if hasattr(tree, "_asdict"):
        tree = tree._asdict()
    if isinstance(tree, dict):
        return {key: _to_dicts(value) for key, value in tree.items()}
    return np.asarray(tree)
