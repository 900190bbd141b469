"""What a custom environment's own `reset` may return, and what the batch makes of it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("brax")

from brax import envs as brax_envs
from brax_samples import SampleEnv, count_on, start
from gymnasium import spaces

from gymbridge import BraxVectorEnv


def generous_start(rng: jax.Array) -> brax_envs.State:
    return start(rng, reward=jnp.asarray(5.0), done=jnp.asarray(1.0))


def end_after_two(state: brax_envs.State, action: jax.Array) -> brax_envs.State:
    later = count_on(state, action)
    return later.replace(done=(later.obs[0] >= 2).astype(jnp.float32))


def test_restart__has_no_reward_and_no_flags_whatever_reset_returns(mode: str) -> None:
    envs = BraxVectorEnv(SampleEnv(generous_start, end_after_two), 1, autoreset_mode=mode)
    envs.reset(seed=0)
    seen = []
    for _ in range(6):
        _, rewards, terminations, _, _ = envs.step(np.ones((1, 1), np.float32))
        seen.append((float(rewards[0]), bool(terminations[0])))
        if mode == "Disabled" and terminations[0]:
            envs.reset(options={"reset_mask": terminations})
    episode = [(1.0, False), (1.0, True)]
    restart = [(0.0, False)] if mode == "NextStep" else []
    assert seen == ((episode + restart) * 3)[:6]


def test_diverged__shows_zero_where_the_observation_never_was_finite() -> None:
    def lost_start(rng: jax.Array) -> brax_envs.State:
        return start(rng, obs=jnp.array([jnp.nan, 3.0]))

    envs = BraxVectorEnv(SampleEnv(lost_start, lambda state, action: state), 2)
    envs.reset(seed=0)
    obs, rewards, terminations, _, infos = envs.step(np.ones((2, 1), np.float32))
    assert obs.tolist() == [[0, 3], [0, 3]]
    assert rewards.tolist() == [0, 0]
    assert terminations.all()
    assert infos["nonfinite"].all()


@pytest.mark.parametrize("limit", [2**31, 2**40])
def test_limit__beyond_a_counter_is_none(limit: int) -> None:
    envs = BraxVectorEnv(SampleEnv(), 2, max_episode_steps=limit)
    assert envs.max_episode_steps is None
    envs.reset(seed=0)
    assert not envs.step(np.ones((2, 1), np.float32))[3].any()


@pytest.mark.parametrize(
    ("declared", "shown"),
    [
        (spaces.Box(-1, 1, (2,), np.float64), spaces.Box(-1, 1, (2,), np.float32)),
        (
            spaces.Dict(a=spaces.Discrete(4, start=1), b=spaces.MultiDiscrete([3, 4])),
            spaces.Dict(
                a=spaces.Discrete(4, start=1, dtype=np.int32),
                b=spaces.MultiDiscrete([3, 4], dtype=np.int32),
            ),
        ),
    ],
)
def test_observation_space__of_64_bits_becomes_one_of_32(declared: Any, shown: Any) -> None:
    def first(rng: jax.Array) -> brax_envs.State:
        obs = {"a": jnp.asarray(2), "b": jnp.array([1, 2])}
        return start(rng) if isinstance(declared, spaces.Box) else start(rng, obs=obs)

    env = SampleEnv(first, lambda state, action: state, observation_space=declared)
    envs = BraxVectorEnv(env, 2)
    assert envs.single_observation_space == shown
    assert envs.observation_space.contains(envs.reset(seed=0)[0])
