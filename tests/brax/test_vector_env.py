from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("brax")

import jax
import jax.numpy as jnp
from brax import envs as brax_envs

from gymbridge import BraxVectorEnv
from gymbridge.errors import ArgumentError
from tests.support.brax_samples import SampleEnv, count_on, start


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`brax.envs.register_environment`, undone after the test."""
    monkeypatch.setattr(brax_envs, "_envs", dict(brax_envs._envs))
    return brax_envs.register_environment


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
