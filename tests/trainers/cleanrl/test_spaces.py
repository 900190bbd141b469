"""CleanRL's view has the spaces that scripts need, refuses what it cannot serve, and is made."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from gymbridge import BridgeVectorEnv
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.testing import ScriptedSimulator
from gymbridge.trainers.cleanrl import CleanRLVectorEnv, make_cleanrl
from tests.support.references import WalkEnv, old_step, sync
from tests.support.trees import assert_same


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_observation_dtype__may_be_assigned(dtype: Any) -> None:
    inner = sync([WalkEnv, WalkEnv])
    view = CleanRLVectorEnv(inner)
    view.single_observation_space.dtype = dtype
    assert view.reset(seed=0)[0].dtype == dtype
    assert inner.single_observation_space.dtype == np.float32
    ended = 0
    for _ in range(30):
        obs, _, _, _, infos = view.step(np.zeros((2, 2), np.float32))
        assert obs.dtype == dtype
        assert obs[0] in view.single_observation_space
        finals = [final for final in infos.get("final_observation", ()) if final is not None]
        assert {final.dtype for final in finals} <= {np.dtype(dtype)}
        ended += len(finals)
    assert ended > 5


DICT_SPACE = spaces.Dict(
    {
        "b": spaces.Box(-np.inf, np.inf, (1, 2), np.float32),
        "a": spaces.Dict({"c": spaces.Box(-np.inf, np.inf, (), np.float32)}),
    }
)


def test_dict_observations__are_joined_as_gymnasium_flattens_them() -> None:
    view = CleanRLVectorEnv(sync([lambda: WalkEnv(DICT_SPACE)] * 3))
    old = sync([lambda: gym.wrappers.FlattenObservation(WalkEnv(DICT_SPACE))] * 3)
    assert view.single_observation_space == old.single_observation_space
    assert view.observation_space == batch_space(view.single_observation_space, 3)
    np.testing.assert_array_equal(view.reset(seed=2)[0], old.reset(seed=2)[0])
    ends = 0
    for _ in range(20):
        actions = np.full((3, 2), 0.25, np.float32)
        expected, (obs, *_, infos) = old_step(old, actions), view.step(actions)
        assert obs in view.observation_space
        np.testing.assert_array_equal(obs, expected.obs)
        if "final_observation" in infos:
            assert_same(list(infos["final_observation"]), expected.final_obs)
            ends += 1
    assert ends > 5


def test_dict_observations__that_are_no_numbers_are_refused() -> None:
    space = spaces.Dict({"x": spaces.Box(0, 1, (2,)), "way": spaces.Discrete(4)})
    with pytest.raises(ArgumentError, match=r"Discrete under 'way'.*FilterObservation"):
        CleanRLVectorEnv(sync([lambda: WalkEnv(space)]))
    with pytest.raises(ArgumentError, match="under 'way'"):
        CleanRLVectorEnv(sync([lambda: WalkEnv(spaces.Dict({"deep": space}))]))


def test_discrete_actions__are_int64_from_zero() -> None:
    simulator = ScriptedSimulator([2, 3])
    simulator.single_action_space = spaces.Discrete(3, dtype=np.int32)
    view = CleanRLVectorEnv(BridgeVectorEnv(simulator, autoreset_mode="SameStep"))
    assert view.single_action_space == spaces.Discrete(3)
    assert view.single_action_space.dtype == np.int64
    assert view.action_space == spaces.MultiDiscrete([3, 3])
    view.reset(seed=0)
    view.step(np.array([view.single_action_space.sample() for _ in range(view.num_envs)]))


def test_discrete_actions__that_count_from_elsewhere_are_refused() -> None:
    simulator = ScriptedSimulator([2])
    simulator.single_action_space = spaces.Discrete(3, start=-1)
    with pytest.raises(ArgumentError, match=r"start at 0.*start=-1"):
        CleanRLVectorEnv(BridgeVectorEnv(simulator, autoreset_mode="SameStep"))


@pytest.mark.parametrize("seed", [3, 2**40])
def test_make__seeds_random_actions_as_make_env_does(seed: int) -> None:
    view, other = make_cleanrl("CartPole-v1", 2, seed=seed), make_cleanrl("CartPole-v1", seed=4)
    reference = spaces.Discrete(2, seed=seed)
    drawn = [view.single_action_space.sample() for _ in range(40)]
    assert drawn == [reference.sample() for _ in range(40)]
    assert drawn != [other.single_action_space.sample() for _ in range(40)]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"env_id": 7}, ArgumentTypeError, r"`env_id`.*got int.*CleanRLVectorEnv\(envs\)"),
        ({"seed": -1}, ArgumentError, "`seed`"),
        ({"seed": 1.5}, ArgumentTypeError, "`seed`"),
        ({"normalize": "rows"}, ArgumentError, r"`normalize`.*'env'.*'batch'.*got 'rows'"),
        ({"gamma": 1.5, "normalize": "env"}, ArgumentError, r"`gamma`.*0 to 1, got 1\.5"),
        ({"gamma": "high", "normalize": "env"}, ArgumentError, "`gamma`"),
        ({"env_id": "Nothing-v0"}, gym.error.NameNotFound, "Nothing"),
    ],
)
def test_make__refuses_bad_arguments(arguments: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make_cleanrl(**{"env_id": "CartPole-v1", **arguments})
