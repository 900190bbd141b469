from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("brax")

import jax
import jax.numpy as jnp
from brax import envs as brax_envs
from brax_samples import SampleEnv, count_on, start
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from gymbridge import BraxVectorEnv
from gymbridge.errors import ArgumentError


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`brax.envs.register_environment`, undone after the test."""
    monkeypatch.setattr(brax_envs, "_envs", dict(brax_envs._envs))
    return brax_envs.register_environment


def test_registered_env__is_described_truly() -> None:
    envs = BraxVectorEnv("fast", 5)
    assert envs.num_envs == 5
    assert envs.max_episode_steps == 1000
    assert envs.autoreset_mode is envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert envs.single_action_space == spaces.Box(-1, 1, (1,), np.float32)
    assert envs.single_observation_space == spaces.Box(-np.inf, np.inf, (2,), np.float32)
    assert envs.action_space.shape == (5, 1)
    assert envs.observation_space.shape == (5, 2)
    assert envs.get_attr("action_size") == (1,) * 5


def test_registered_env__takes_the_keywords_of_its_class_and_bases() -> None:
    envs = BraxVectorEnv("fast", asymmetric_obs=True, obs_mode="dict_pixels_state", backend="mjx")
    names = {"state", "privileged_state", "pixels/view_0", "pixels/view_1"}
    assert set(envs.single_observation_space) == names
    obs, _ = envs.reset(seed=0)
    assert obs in envs.observation_space
    assert envs.step([[1.0]])[0] in envs.observation_space


def test_user_env__registered_with_brax_goes_by_its_name(register: Any) -> None:
    class Mine(SampleEnv):
        def __init__(self, gain: float = 1.0, **kwargs: Any) -> None:
            super().__init__(step=lambda state, act: count_on(state, act, reward=gain), **kwargs)

    register("mine", Mine)
    envs = BraxVectorEnv("mine", 2, gain=3.0, colour="red")
    assert envs.max_episode_steps == 1000
    assert envs.get_attr("colour") == ("red", "red")
    envs.reset(seed=0)
    assert envs.step([[0.0], [0.0]])[1].tolist() == [3.0, 3.0]


def test_user_env__may_be_registered_as_a_function(register: Any) -> None:
    def make(gain: float) -> SampleEnv:
        return SampleEnv(gain=gain)

    register("made", make)
    register("partial", functools.partial(make, 4.0))
    assert BraxVectorEnv("made", gain=2.0).get_attr("gain") == (2.0,)
    assert BraxVectorEnv("partial").get_attr("gain") == (4.0,)
    with pytest.raises(ArgumentError, match=r"keyword argument 'gian' .*Did you mean 'gain'"):
        BraxVectorEnv("made", gian=2.0)


def test_actions__may_be_overwritten_after_the_step_that_stored_them() -> None:
    def step(state: Any, action: jax.Array) -> Any:
        return count_on(state, action, info={"now": action, "past": state.info["now"]})

    env = SampleEnv(lambda rng: start(rng, info=dict.fromkeys(("now", "past"), jnp.zeros(1))), step)
    envs = BraxVectorEnv(env, 4)
    envs.reset(seed=0)
    actions = np.zeros((4, 1), np.float32)
    for number in range(20):
        actions[:] = number
        infos = envs.step(actions)[-1]
        actions[:] = -1
        assert infos["now"].tolist() == [[number]] * 4
        assert infos["past"].tolist() == [[max(number - 1, 0)]] * 4


def _halving(length: int) -> SampleEnv:
    """Return an environment whose rewards are 1, 1/2, 1/4, …, so that a sum says which they are."""

    def step(state: Any, action: jax.Array) -> Any:
        steps = state.info["steps"] + 1
        reward = 2.0 * 0.5**steps
        done = 1.0 * (steps >= length)
        return count_on(state, action, reward=reward, done=done, info={"steps": steps})

    return SampleEnv(lambda rng: start(rng, info={"steps": 0}), step)


def test_action_repeat__adds_rewards_and_stops_at_the_end() -> None:
    envs = BraxVectorEnv(_halving(5), 2, action_repeat=3)
    envs.reset(seed=0)
    for reward, steps, is_over in ((1.75, 3, False), (0.125 + 0.0625, 5, True)):
        _, rewards, terminations, _, infos = envs.step(np.zeros((2, 1)))
        assert rewards.tolist() == [reward] * 2
        assert infos["steps"].tolist() == [steps] * 2
        assert terminations.tolist() == [is_over] * 2


def test_action_repeat__equals_a_loop_and_the_limit_counts_its_steps() -> None:
    envs = BraxVectorEnv(_halving(99), 2, action_repeat=2, max_episode_steps=4)
    single = BraxVectorEnv(_halving(99), 2)
    envs.reset(seed=0)
    single.reset(seed=0)
    for index in range(4):
        actions = np.full((2, 1), index)
        obs, rewards, _, truncations, _ = envs.step(actions)
        parts = [single.step(actions) for _ in range(2)]
        np.testing.assert_array_equal(obs, parts[-1][0], strict=True)
        np.testing.assert_array_equal(rewards, parts[0][1] + parts[1][1], strict=True)
        assert truncations.tolist() == [index == 3] * 2
