from __future__ import annotations

import functools
from collections.abc import Iterator
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
from gymbridge.testing.scripted_brax import ScriptedBraxEnv


@pytest.fixture
def register() -> Iterator[Any]:
    """`brax.envs.register_environment`, undone after the test."""
    before = dict(brax_envs._envs)
    yield brax_envs.register_environment
    brax_envs._envs.clear()
    brax_envs._envs.update(before)


def _ending(limit: int) -> SampleEnv:
    """Return an environment that ends after so many steps, and tells its steps and last action."""

    def reset(rng: jax.Array) -> Any:
        return start(rng, info={"steps": 0, "action": jnp.zeros(1)})

    def step(state: Any, action: jax.Array) -> Any:
        steps = state.info["steps"] + 1
        done = 1.0 * (steps >= limit)
        return count_on(state, action, done=done, info={"steps": steps, "action": action})

    return SampleEnv(reset, step)


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


@pytest.mark.parametrize(("given", "limit"), [(None, 1000), (-1, None), (7, 7), (np.int64(7), 7)])
def test_limit__of_a_registered_env_is_braxs_unless_given(given: Any, limit: Any) -> None:
    assert BraxVectorEnv("fast", max_episode_steps=given).max_episode_steps == limit


def test_limit__cuts_an_env_object_only_when_given(mode: str) -> None:
    assert BraxVectorEnv(SampleEnv()).max_episode_steps is None
    envs = BraxVectorEnv(SampleEnv(), 2, max_episode_steps=2, autoreset_mode=mode)
    envs.reset(seed=0)
    flags = [envs.step(np.zeros((2, 1)))[2:4] for _ in range(2)]
    assert [bool(truncated.all()) for _, truncated in flags] == [False, True]
    assert not any(terminated.any() for terminated, _ in flags)


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
        return SampleEnv(step=lambda state, act: count_on(state, act, reward=gain))

    register("made", make)
    register("partial", functools.partial(make, 4.0))
    assert BraxVectorEnv("made", gain=2.0).max_episode_steps == 1000
    assert BraxVectorEnv("partial").max_episode_steps == 1000
    with pytest.raises(ArgumentError, match=r"keyword argument 'gian' .*Did you mean 'gain'"):
        BraxVectorEnv("made", gian=2.0)


@pytest.mark.parametrize("num_envs", [1, np.int64(3), np.uint8(3)])
def test_num_envs__may_be_one_or_a_numpy_integer(num_envs: Any) -> None:
    envs = BraxVectorEnv(_ending(2), num_envs)
    assert type(envs.num_envs) is int
    obs, _ = envs.reset(seed=0)
    assert obs.shape == (num_envs, 2)
    ends = [envs.step(np.zeros((num_envs, 1)))[2] for _ in range(4)]
    assert [end.tolist() for end in ends] == [[over] * num_envs for over in (0, 1, 0, 0)]


def test_dtypes__are_those_of_the_spaces_and_32_bit() -> None:
    def observe(count: jax.Array) -> dict[str, jax.Array]:
        pixels = jnp.full((4, 4, 3), 250, jnp.uint8) + count.astype(jnp.uint8)
        return {"count": count, "pixels": pixels, "wide": count.astype(float)}

    env = SampleEnv(
        lambda rng: start(rng, obs=observe(jnp.int32(0))),
        lambda state, act: count_on(state, act, obs=observe(state.obs["count"] + 1)),
    )
    envs = BraxVectorEnv(env, 2)
    info = np.iinfo(np.int32)
    assert envs.single_observation_space == spaces.Dict(
        count=spaces.Box(info.min, info.max, (), np.int32),
        pixels=spaces.Box(0, 255, (4, 4, 3), np.uint8),
        wide=spaces.Box(-np.inf, np.inf, (), np.float32),
    )
    envs.reset(seed=0)
    obs, rewards, terminations, truncations, _ = envs.step(np.zeros((2, 1)))
    assert obs in envs.observation_space
    assert {name: array.dtype for name, array in obs.items()} == {
        "count": np.int32,
        "pixels": np.uint8,
        "wide": np.float32,
    }
    np.testing.assert_array_equal(obs["pixels"], np.full((2, 4, 4, 3), 251, np.uint8))
    assert (rewards.dtype, terminations.dtype, truncations.dtype) == (np.float32, bool, bool)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8])
def test_actions__are_cast_to_the_space(dtype: Any) -> None:
    envs = BraxVectorEnv(_ending(9), 2)
    envs.reset(seed=0)
    infos = envs.step(np.array([[1], [0]], dtype))[-1]
    np.testing.assert_array_equal(infos["action"], np.array([[1], [0]], np.float32), strict=True)


def test_flags__tell_the_tasks_own_cut_from_its_end() -> None:
    """The scripted environment says which of its ends are cuts, as Brax does."""
    envs = BraxVectorEnv(ScriptedBraxEnv([1, 1], [False, True]), 8)
    _, infos = envs.reset(seed=0)
    cut = infos["draw"] % 2 == 1
    assert 0 < cut.sum() < 8
    _, _, terminations, truncations, _ = envs.step(np.zeros(8, np.int64))
    np.testing.assert_array_equal(truncations, cut, strict=True)
    np.testing.assert_array_equal(terminations, ~cut, strict=True)


def test_infos__with_a_counter_of_the_envs_own_count_its_steps_once(mode: str) -> None:
    envs = BraxVectorEnv(_ending(3), 2, autoreset_mode=mode)
    envs.reset(seed=0)
    seen = []
    for _ in range(5):
        _, _, terminations, _, infos = envs.step(np.zeros((2, 1)))
        seen.append(infos["steps"][0].item())
        if mode == "Disabled" and terminations.all():
            envs.reset()
    expected = {
        "NextStep": [1, 2, 3, 0, 1],
        "SameStep": [1, 2, 0, 1, 2],
        "Disabled": [1, 2, 3, 1, 2],
    }
    assert seen == expected[mode]


def _arrays(value: Any) -> list[np.ndarray]:
    """Return all arrays of numbers in what `reset` or `step` returned."""
    if isinstance(value, dict | tuple):
        parts = value.values() if isinstance(value, dict) else value
        return [array for part in parts for array in _arrays(part)]
    if value.dtype == object:
        return [row for row in value if row is not None]
    return [value]


def _step_both(envs: BraxVectorEnv, twin: BraxVectorEnv) -> tuple[list[Any], list[Any]]:
    """Step two batches alike, and begin again where neither does it by itself."""
    results = [batch.step(np.ones((batch.num_envs, 1))) for batch in (envs, twin)]
    if envs.autoreset_mode is AutoresetMode.DISABLED and results[1][2].all():
        results = [
            (*result, *batch.reset()) for result, batch in zip(results, (envs, twin), strict=True)
        ]
    return _arrays(results[0]), _arrays(results[1])


def test_results__are_never_overwritten_by_later_steps(mode: str) -> None:
    envs, twin = (BraxVectorEnv(_ending(2), 3, autoreset_mode=mode) for _ in range(2))
    held = _arrays(envs.reset(seed=0))
    expected = [array.copy() for array in held]
    twin.reset(seed=0)
    for _ in range(6):
        ours, theirs = _step_both(envs, twin)
        held += ours
        expected += [array.copy() for array in theirs]
    for now, then in zip(held, expected, strict=True):
        np.testing.assert_array_equal(now, then, strict=True)


def test_results__may_be_overwritten_without_touching_the_simulation(mode: str) -> None:
    envs, twin = (BraxVectorEnv(_ending(2), 3, autoreset_mode=mode) for _ in range(2))
    spoilt = _arrays(envs.reset(seed=0))
    twin.reset(seed=0)
    for _ in range(6):
        for array in spoilt:
            array[...] = 1
        spoilt, expected = _step_both(envs, twin)
        for mine, other in zip(spoilt, expected, strict=True):
            np.testing.assert_array_equal(mine, other, strict=True)


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
    """Return an environment whose rewards are 1, 1/2, 1/4, …, so that a sum tells its steps."""

    def step(state: Any, action: jax.Array) -> Any:
        steps = state.info["steps"] + 1
        reward = 2.0 * 0.5**steps
        done = 1.0 * (steps >= length)
        return count_on(state, action, reward=reward, done=done, info={"steps": steps})

    return SampleEnv(lambda rng: start(rng, info={"steps": 0}), step)


def test_action_repeat__adds_rewards_and_stops_at_the_end(mode: str) -> None:
    envs = BraxVectorEnv(_halving(5), 2, action_repeat=3, autoreset_mode=mode)
    envs.reset(seed=0)
    _, rewards, terminations, _, infos = envs.step(np.zeros((2, 1)))
    assert rewards.tolist() == [1.75] * 2
    assert infos["steps"].tolist() == [3, 3]
    assert not terminations.any()
    _, rewards, terminations, _, infos = envs.step(np.zeros((2, 1)))
    assert rewards.tolist() == [0.125 + 0.0625] * 2
    assert terminations.all()
    last = infos["final_info"] if mode == "SameStep" else infos
    assert last["steps"].tolist() == [5, 5]


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
