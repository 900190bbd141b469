"""Step by step, the view gives what SB3's own `DummyVecEnv` gives, and what it gives is yours."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from gymnasium.wrappers import FlattenObservation, TransformObservation
from gymnasium.wrappers import vector as wrappers
from hypothesis import given, settings
from hypothesis import strategies as st

from gymbridge.errors import ArgumentError
from gymbridge.trainers.sb3 import Sb3VecEnv
from gymbridge.trainers.zero_based import from_zero, has_offsets, to_zero, zero_based_space
from tests.support.sb3_samples import (
    LENGTHS,
    SEED,
    KindsEnv,
    assert_like,
    compare,
    dummy,
    scripted,
    scripted_dummy,
    sync,
)
from tests.support.strategies import Script, limits, scripts
from tests.support.trees import scribble

CART_POLE = partial(gym.make, "CartPole-v1", max_episode_steps=12)


def tuple_env() -> gym.Env[Any, Any]:
    space = spaces.Tuple((KindsEnv().observation_space["image"], spaces.Discrete(9)))
    return TransformObservation(KindsEnv(), lambda obs: (obs["image"], obs["kind"]), space)


class BinaryEnv(gym.Env[Any, Any]):
    """One step per episode; its action is a row of bits."""

    observation_space = spaces.Box(0, 1, (1,))
    action_space = spaces.MultiBinary(3)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**kwargs)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        assert action.dtype == self.action_space.dtype
        return np.zeros(1, np.float32), float(action.sum()), True, False, {}


@given(script=scripts(), limit=limits())
def test_any_script__gives_what_dummy_vec_env_gives(script: Script, limit: int | None) -> None:
    view = scripted(script.lengths, script.truncates, max_episode_steps=limit)
    compare(view, scripted_dummy(script.lengths, script.truncates, limit), 12)


@given(length=st.integers(1, 4), num_envs=st.integers(1, 3))
@settings(max_examples=10)
def test_infos_of_every_kind__are_what_dummy_vec_env_gives(length: int, num_envs: int) -> None:
    make = partial(KindsEnv, length)
    seen = compare(sync(make, num_envs), dummy(make, num_envs), 10)
    assert seen["terminated"] >= num_envs


@pytest.mark.parametrize(
    ("make", "options"), [(CART_POLE, {}), (tuple_env, {}), (KindsEnv, {"copy": False})]
)
def test_sync_vector_env__gives_what_dummy_vec_env_gives(make: Any, options: Any) -> None:
    """Buffers that a batch gives away are copied."""
    assert compare(sync(make, **options), dummy(make), 60)["truncated"] > 0


def test_async_vector_env__gives_what_dummy_vec_env_gives() -> None:
    mode = AutoresetMode.SAME_STEP
    view = Sb3VecEnv(AsyncVectorEnv([CART_POLE] * 2, autoreset_mode=mode, context="spawn"))
    assert compare(view, dummy(CART_POLE, 2), 40)["truncated"] > 0
    assert view.get_attr("x_threshold", 1) == [2.4]
    assert not view.has_attr("no_such_thing")
    view.set_attr("x_threshold", 3.5, indices=[1])
    assert view.get_attr("x_threshold") == [2.4, 3.5]
    assert view.env_method("has_wrapper_attr", "gravity") == [True, True]
    with pytest.raises(ArgumentError, match=r"`indices` must be None for AsyncVectorEnv"):
        view.env_method("has_wrapper_attr", "gravity", indices=[0])
    assert view.env_is_wrapped(gym.wrappers.TimeLimit, [1]) == [True]
    assert view.env_is_wrapped(FlattenObservation) == [False, False]
    with pytest.raises(AttributeError, match="no attribute 'no_such_method'"):
        view.env_method("no_such_method")
    assert view.step(np.zeros(2, np.int64))[0].shape == (2, 4), "its workers live"
    view.close()


def test_statistics_of_gymnasium__reach_the_infos_of_the_ended_episode() -> None:
    view = scripted()
    view.vector_env = wrappers.RecordEpisodeStatistics(view.vector_env)
    view.seed(SEED)
    view.reset()
    lengths: list[list[int]] = [[] for _ in LENGTHS]
    for _ in range(10):
        _, _, dones, infos = view.step(np.ones(4, np.int64))
        for index, (done, info) in enumerate(zip(dones, infos, strict=True)):
            assert done == ("episode" in info)
            assert "episode" not in view.reset_infos[index]
            if done:
                length = info["episode"]["l"]
                assert info["episode"]["r"] == sum(1 + step / 4 for step in range(1, length + 1))
                lengths[index].append(length)
    assert [own[:3] for own in lengths] == LENGTHS


@pytest.mark.parametrize(
    "make", [scripted, partial(sync, KindsEnv), partial(sync, KindsEnv, copy=False)]
)
def test_what_a_step_returns__is_writable_and_never_changes_later(make: Any) -> None:
    view, spoilt = make(), make()
    for one in (view, spoilt):
        one.seed(SEED)
    kept: list[Any] = [(obs := view.reset(), copy.deepcopy(obs))]
    scribble(spoilt.reset())
    scribble(spoilt.reset_infos)
    for _ in range(14):
        expected, actual = view.step(np.ones(4, np.int64)), spoilt.step(np.ones(4, np.int64))
        kept.append((expected, copy.deepcopy(expected)))
        assert_like(actual, expected)
        *arrays, infos = actual
        scribble((*arrays, *infos))
    for returned, as_it_was in kept:
        assert_like(returned, as_it_was)


def test_rows_of_infos__share_nothing() -> None:
    view = sync(KindsEnv)
    view.reset()
    for _ in range(7):
        obs, rewards, _, infos = view.step(np.ones(4, np.int64))
        rewards += 1  # as `collect_rollouts` does
        others = copy.deepcopy(infos[1:])
        scribble(infos[0])
        assert_like(infos[1:], others)
        if "terminal_observation" in infos[1]:
            begun = obs["image"].copy()
            infos[1]["terminal_observation"]["image"][:] = 0  # as VecNormalize does
            np.testing.assert_array_equal(obs["image"], begun)


def test_outputs__have_the_types_that_sb3_expects() -> None:
    view = scripted()
    view.reset()
    infos = view.step(np.ones(4, np.int64))[3]
    assert all(type(info["TimeLimit.truncated"]) is bool for info in infos)
    assert all(type(info["draw"]) is int for info in infos)


@pytest.mark.parametrize("start", [3, -2])
def test_integers_that_begin_elsewhere__begin_at_zero(start: int) -> None:
    view = sync(lambda: KindsEnv(start=start))
    assert view.action_space == spaces.Discrete(3)
    assert view.observation_space["kind"] == spaces.Discrete(9)
    assert compare(view, dummy(KindsEnv), 9)["terminated"] > 0
    assert view.vector_env.single_action_space == spaces.Discrete(3, start=start)


def test_actions_of_several_integers__are_shifted_one_by_one() -> None:
    class Many(BinaryEnv):
        action_space = spaces.MultiDiscrete([3, 2], start=[5, -1])

    view = sync(Many, 2)
    assert view.action_space == spaces.MultiDiscrete([3, 2])
    view.reset()
    np.testing.assert_array_equal(view.step(np.array([[0, 0], [2, 1]]))[1], [4, 7])


def test_binary_actions__may_be_floats_as_policies_draw_them() -> None:
    view = sync(BinaryEnv, 2)
    view.reset()
    np.testing.assert_array_equal(view.step(np.array([[1.0, 0, 1], [0, 0, 0]]))[1], [2, 0])


def test_pickled_view__steps_a_batch_of_its_own() -> None:
    view = scripted()
    view.reset()
    compare(pickle.loads(pickle.dumps(view)), scripted_dummy(), 20)
    assert view.step(np.zeros(4, int))[0].tolist() == [1.0, 1.0, 1.0, 0.0], "it was not stepped"


SPACE = spaces.Dict(
    {
        "one": spaces.Discrete(4, start=-2),
        "many": spaces.MultiDiscrete([2, 3], start=[7, 0]),
        "box": spaces.Box(0, 1, (2,)),
    }
)


def test_zero_based_space__holds_the_shifted_values() -> None:
    SPACE.seed(0)
    zero = zero_based_space(SPACE)
    assert not has_offsets(zero)
    for _ in range(20):
        value = SPACE.sample()
        shifted = to_zero(SPACE)(value)
        assert zero.contains(shifted)
        assert SPACE.contains(from_zero(SPACE)(shifted))
        assert int(shifted["one"]) == int(value["one"]) + 2
        assert shifted["many"].tolist() == (value["many"] - [7, 0]).tolist()
        assert shifted["box"] is value["box"]
