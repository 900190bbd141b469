"""The stack of CleanRL's continuous PPO on a batch is that of Gymnasium's wrappers on each row."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers
from gymnasium.envs.registration import register, registry

from gymbridge.errors import ArgumentError
from gymbridge.trainers.cleanrl import make_cleanrl
from tests.support.references import OldStep, WalkEnv, old_step, sync

NUM_ENVS = 4
DOUBLE = gym.spaces.Box(-np.inf, np.inf, (3,), np.float64)
"""Gymnasium 1.x keeps the statistics of one environment in the dtype of the space."""


@pytest.fixture(autouse=True)
def walk() -> Any:
    """The id of an environment with walks in double precision."""
    register("ScaledWalk-v0", lambda **_: WalkEnv(DOUBLE))
    yield
    registry.pop("ScaledWalk-v0")


class FreshReturns(wrappers.NormalizeReward):
    """Begins the discounted return at 0 in each episode, as Gymnasium's vector wrapper does."""

    def reset(self, **kwargs: Any) -> Any:
        self.discounted_reward = np.array([0.0])
        return super().reset(**kwargs)


def make_stack(gamma: float) -> gym.Env[Any, Any]:
    """Return one environment wrapped as scripts wrap it, by Gymnasium's own wrappers."""
    env: Any = wrappers.RecordEpisodeStatistics(WalkEnv(DOUBLE))
    env = wrappers.ClipAction(env)
    env = wrappers.NormalizeObservation(env)
    env = wrappers.TransformObservation(env, lambda obs: np.clip(obs, -10, 10), None)
    env = FreshReturns(env, gamma=gamma)
    return wrappers.TransformReward(env, lambda reward: np.clip(reward, -10, 10))


def actions_of(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(0, 1, (NUM_ENVS, 2)).astype(np.float32)  # half of them out of bounds


def assert_close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def assert_scaled_as_by_wrappers(step: Any, old: OldStep) -> None:
    obs, rewards, terminations, truncations, infos = step
    assert_close(obs, old.obs)
    assert_close(rewards, old.rewards)
    np.testing.assert_array_equal(terminations, old.terminations)
    np.testing.assert_array_equal(truncations, old.truncations)
    for index, (final_obs, info) in enumerate(zip(old.final_obs, old.final_info, strict=True)):
        if info is None:
            assert "final_info" not in infos or infos["final_info"][index] is None
            continue
        assert_close(infos["final_observation"][index], final_obs)
        assert infos["final_observation"][index].dtype == obs.dtype
        record = infos["final_info"][index]["episode"]
        assert_close(record["r"], info["episode"]["r"])
        assert record["l"] == info["episode"]["l"]
        assert infos["final_info"][index]["end"] == info["end"]


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_env_statistics__are_those_of_wrappers_around_each_environment(gamma: float) -> None:
    view = make_cleanrl("ScaledWalk-v0", NUM_ENVS, normalize="env", gamma=gamma)
    old = sync([lambda: make_stack(gamma)] * NUM_ENVS)
    assert_close(view.reset(seed=1)[0], old.reset(seed=1)[0])
    rng, ends, cuts = np.random.default_rng(0), 0, 0
    for _ in range(150):
        actions = actions_of(rng)
        step = old_step(old, actions)
        assert_scaled_as_by_wrappers(view.step(actions), step)
        ends, cuts = ends + sum(step.terminations), cuts + sum(step.truncations)
    assert min(ends, cuts) > 30


def test_batch_statistics__are_one_set_for_all() -> None:
    """`tests/wrappers/test_values.py` has their values."""
    view = make_cleanrl("ScaledWalk-v0", NUM_ENVS, normalize="batch")
    view.reset(seed=1)
    view.step(actions_of(np.random.default_rng(0)))
    assert view.env.env.env.obs_rms.mean.shape == (3,)
    assert view.env.env.return_rms.mean.shape == ()


def test_view__has_spaces_that_fit_and_casts() -> None:
    view = make_cleanrl("ScaledWalk-v0", NUM_ENVS, normalize="env")
    assert view.single_observation_space == gym.spaces.Box(-10, 10, (3,), np.float32)
    assert view.single_action_space == WalkEnv().action_space
    obs, _ = view.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert obs in view.observation_space
        obs, rewards, *_ = view.step(actions_of(rng))
        assert np.abs(rewards).max() <= 10
    view.single_observation_space.dtype = np.float64
    assert view.step(actions_of(rng))[0].dtype == np.float64


def test_make__refuses_what_cannot_be_normalised() -> None:
    with pytest.raises(ArgumentError, match=r"`gamma`.*got nan"):
        make_cleanrl("ScaledWalk-v0", 1, normalize="env", gamma=float("nan"))
    with pytest.raises(ArgumentError, match=r"observations in Boxes to normalise, got Discrete"):
        make_cleanrl("FrozenLake-v1", 1, normalize="env")
