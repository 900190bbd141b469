"""Batches return, step by step, what one plain Brax environment per row returns."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("brax.envs")

import jax
import jax.numpy as jnp
from brax import envs as brax_envs

from gymbridge import BraxVectorEnv
from tests.support.brax_samples import SampleEnv, count_on, start
from tests.support.oracle import Answer, Oracle, Row, check_run

MODES = ("NextStep", "SameStep", "Disabled")
LIMITS = (1, 2, 3, 7, None, -1)
SEEDS = [907, 2**32 - 1, 11, 4]

FREE, ON_THE_GROUND = {"rtol": 1e-4, "atol": 1e-5}, {"rtol": 1e-3, "atol": 1e-3}
"""Batches of different sizes are equal up to rounding, which grows where legs hit the ground.

Flags and lengths are equal.
"""

ENDS = ["tie", "terminated", "truncated"]

CASES = [
    # name, backend, mode, limit, least steps of environments that are compared, ends that are seen
    *(("wanderer", None, mode, 1, 240, ["truncated"]) for mode in MODES),
    *(("wanderer", None, mode, limit, 400, ENDS) for mode in MODES for limit in (2, 3, 7)),
    *(("wanderer", None, mode, -1, 400, ENDS[1:]) for mode in MODES),
    ("fast", None, "NextStep", None, 8100, ["truncated"]),
    ("fast", None, "SameStep", None, 8100, ["truncated"]),
    ("fast", None, "Disabled", -1, 8100, []),
    ("inverted_pendulum", "generalized", "NextStep", 7, 600, ENDS),
    ("inverted_pendulum", "generalized", "SameStep", 3, 600, ENDS),
    ("inverted_pendulum", "generalized", "Disabled", 7, 600, ENDS),
    ("inverted_pendulum", "spring", "NextStep", -1, 600, ["terminated"]),
    ("inverted_pendulum", "spring", "SameStep", None, 600, ["terminated"]),
    ("inverted_pendulum", "spring", "Disabled", 1, 120, ["truncated"]),
    ("reacher", "spring", "NextStep", 7, 400, ["truncated"]),
    ("reacher", "generalized", "Disabled", 2, 200, ["truncated"]),
    ("inverted_pendulum", "mjx", "SameStep", 7, 200, ["truncated"]),
    ("inverted_pendulum", "positional", "NextStep", 7, 200, ["truncated"]),
    ("halfcheetah", "spring", "SameStep", 7, 200, ["truncated"]),
]

QUICK = [CASES[index] for index in (4, 7, 10, 21)]
"""A case of each mode that compiles in a moment, and one with physics."""

PLACED = [
    *((case, "cpu") for case in CASES),
    *((case, "cpu:all") for case in (*QUICK[:3], CASES[-1])),
]
"""All cases on one device; each mode, and physics, over two."""


class OwnBrax:
    """One environment of Brax's own, whose episode k begins from ``fold_in(PRNGKey(seed), k)``."""

    def __init__(self, name: str, backend: str | None, seed: int) -> None:
        _, self._reset, self._step = make_env(name, backend)
        self._seed, self._episode = seed, 0
        self._state: Any = None

    def begin(self) -> Answer:
        key = jax.random.fold_in(jax.random.PRNGKey(np.uint32(self._seed)), self._episode)
        self._episode += 1
        self._state = self._reset(key)
        return self._read()

    def step(self, action: Any) -> Answer:
        self._state = self._step(self._state, action)
        return self._read()

    def _read(self) -> Answer:
        state = self._state
        infos = {**state.metrics, **state.info}
        info = {name: np.asarray(value) for name, value in infos.items()}
        info["nonfinite"] = np.False_
        is_cut = bool(infos.get("truncation", 0) > 0)
        flags = bool(state.done) and not is_cut, bool(state.done) and is_cut
        return Answer(np.asarray(state.obs), float(state.reward), *flags, info)


def make_wanderer() -> SampleEnv:
    """Return an environment that compiles at once: it leaves a square to either side.

    An end to the side of its second coordinate is a truncation.
    """

    def reset(rng: jax.Array) -> brax_envs.State:
        obs = jax.random.uniform(rng, (2,), minval=-0.5, maxval=0.5)
        return start(rng, obs=obs, info={"truncation": jnp.zeros(())})

    def step(state: brax_envs.State, action: jax.Array) -> brax_envs.State:
        obs = state.obs + 0.6 * jnp.stack([action[0], action[0] ** 2 - 0.4])
        outside = jnp.abs(obs) > 1
        info = {"truncation": jnp.where(outside[0], 0.0, outside[1])}
        done = jnp.where(outside.any(), 1.0, 0.0)
        return count_on(state, action, obs=obs, reward=obs.sum(), done=done, info=info)

    return SampleEnv(reset, step)


@cache
def make_env(name: str, backend: str | None) -> tuple[Any, Any, Any]:
    """Return Brax's environment, and its `reset` and `step` compiled for one row."""
    keywords = {} if backend is None else {"backend": backend}
    env = make_wanderer() if name == "wanderer" else brax_envs.get_environment(name, **keywords)
    return env, jax.jit(env.reset), jax.jit(env.step)


@pytest.mark.parametrize(
    ("case", "device"),
    [pytest.param(*one, marks=() if one[0] in QUICK else pytest.mark.slow) for one in PLACED],
)
def test_batch__is_one_plain_brax_environment_per_row(case: tuple[Any, ...], device: str) -> None:
    name, backend, mode, limit, num_steps, ends = case
    kwargs: Any = {"device": device} | ({} if backend is None else {"backend": backend})
    given = make_env(name, None)[0] if name == "wanderer" else name
    envs = BraxVectorEnv(given, len(SEEDS), autoreset_mode=mode, max_episode_steps=limit, **kwargs)
    counted = {None: 1000, -1: None}.get(limit, limit)
    rows = [Row(OwnBrax(name, backend, seed), counted) for seed in SEEDS]
    tolerance = ON_THE_GROUND if name == "halfcheetah" else FREE
    oracle = Oracle(envs, rows, **tolerance)
    check_run(oracle, num_steps, seed=SEEDS, draw=[MODES.index(mode), LIMITS.index(limit)])
    assert oracle.steps >= num_steps
    for end in ends:
        assert oracle.ends[end], f"no end of the kind {end!r} was seen: {dict(oracle.ends)}"


def test_oracle__compares_30000_steps() -> None:
    assert sum(num_steps for *_, num_steps, _ in CASES) > 30_000
