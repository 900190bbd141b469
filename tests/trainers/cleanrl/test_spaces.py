"""CleanRL's view has the spaces that scripts need, refuses what it cannot serve, and is made."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from batches import make_batch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from old_gymnasium import (
    OldSync,
    WalkEnv,
    logged_returns,
    make_scripted_envs,
    sync,
    true_next_obs,
)
from strategies import Script
from trees import assert_same

from gymbridge import BridgeVectorEnv
from gymbridge.errors import ArgumentError, ArgumentTypeError, EnvContractError
from gymbridge.testing import ScriptedSimulator, scripted_vector_env
from gymbridge.trainers.cleanrl import CleanRLVectorEnv, make_cleanrl


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_observation_dtype__may_be_assigned(dtype: Any) -> None:
    def make() -> gym.Env[Any, Any]:
        return WalkEnv()

    inner = sync([make, make])
    view = CleanRLVectorEnv(inner)
    view.single_observation_space.dtype = dtype
    obs, _ = view.reset(seed=0)
    assert obs.dtype == dtype
    assert inner.single_observation_space.dtype == np.float32
    stored = np.zeros(
        (2, *view.single_observation_space.shape), view.single_observation_space.dtype
    )
    for _ in range(30):
        obs, _, _, _, infos = view.step(np.zeros((2, 2), np.float32))
        stored[:] = obs
        np.testing.assert_array_equal(stored, obs)
        assert obs.dtype == dtype
        assert obs[0] in view.single_observation_space
        lasts = [last for last in infos.get("final_observation", ()) if last is not None]
        assert {last.dtype for last in lasts} <= {np.dtype(dtype)}


DICT_SPACE = spaces.Dict(
    {
        "b": spaces.Box(-np.inf, np.inf, (1, 2), np.float32),
        "a": spaces.Dict({"c": spaces.Box(-np.inf, np.inf, (), np.float32)}),
    }
)


def test_dict_observations__are_joined_as_gymnasium_flattens_them() -> None:
    def make() -> gym.Env[Any, Any]:
        return WalkEnv(DICT_SPACE)

    view = CleanRLVectorEnv(sync([make] * 3))
    old = OldSync([gym.wrappers.FlattenObservation(make()) for _ in range(3)])
    assert view.single_observation_space == old.envs[0].observation_space
    assert view.observation_space == batch_space(view.single_observation_space, 3)
    np.testing.assert_array_equal(view.reset(seed=2)[0], np.stack(old.reset([2, 3, 4])))
    ends = 0
    for _ in range(20):
        actions = np.full((3, 2), 0.25, np.float32)
        step, shown = old.step(actions), view.step(actions)
        assert shown[0] in view.observation_space
        np.testing.assert_array_equal(shown[0], np.stack(step.obs))
        if "final_observation" in shown[-1]:
            assert_same(list(shown[-1]["final_observation"]), step.final_obs)
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
    with pytest.raises(ArgumentError, match=r"from 0.*start=-1"):
        CleanRLVectorEnv(BridgeVectorEnv(simulator, autoreset_mode="SameStep"))


@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_other_modes__are_refused_by_name(mode: str) -> None:
    script = Script(np.array([[2]]), np.array([[False]]))
    for envs in (make_batch("host", mode=mode), sync(make_scripted_envs(script), mode)):
        wrong = r"got AutoresetMode\.\w+; build it with `autoreset_mode='SameStep'`"
        with pytest.raises(ArgumentError, match=wrong):
            CleanRLVectorEnv(envs)


def test_other_objects__are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"VectorEnv, got WalkEnv.*make_cleanrl"):
        CleanRLVectorEnv(WalkEnv())  # type: ignore[arg-type]


def test_make__builds_other_ids_of_gymnasium_too() -> None:
    view = make_cleanrl("CartPole-v1", 2, max_episode_steps=5)
    view.reset(seed=0)
    shown = [view.step(np.array([index % 2, index % 2])) for index in range(5)]
    assert shown[-1][3].all()
    assert logged_returns(shown[-1][-1]) == [(5.0, 5), (5.0, 5)]
    view.close()


def test_make__seeds_random_actions_with_any_number() -> None:
    first, again = (make_cleanrl("CartPole-v1", 2, seed=2**40) for _ in range(2))
    found = [[view.single_action_space.sample() for _ in range(20)] for view in (first, again)]
    assert found[0] == found[1]


def test_make__seeds_the_first_random_actions_as_make_env_does() -> None:
    first, again, other = (make_cleanrl("CartPole-v1", 2, seed=seed) for seed in (3, 3, 4))
    reference = spaces.Discrete(2, seed=3)
    drawn = [[view.single_action_space.sample() for _ in range(40)] for view in (first, again)]
    assert drawn == [[reference.sample() for _ in range(40)]] * 2
    assert drawn[0] != [other.single_action_space.sample() for _ in range(40)]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"env_id": 7}, ArgumentTypeError, r"`env_id`.*got int.*CleanRLVectorEnv\(envs\)"),
        ({"seed": -1}, ArgumentError, "`seed`"),
        ({"seed": 1.5}, ArgumentTypeError, "`seed`"),
        ({"normalize": True}, ArgumentError, r"`normalize`.*'env'.*'batch'.*got True"),
        ({"gamma": 1.5}, ArgumentError, r"`gamma`.*0 to 1, got 1\.5"),
        ({"gamma": "high"}, ArgumentError, "`gamma`"),
        ({"env_id": "Nothing-v0"}, gym.error.NameNotFound, "Nothing"),
    ],
)
def test_make__refuses_bad_arguments(arguments: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make_cleanrl(**{"env_id": "CartPole-v1", **arguments})


def test_make__builds_our_ids() -> None:
    pytest.importorskip("envpool")
    for env_id in ("EnvPool/CartPole-v1", "gymbridge:EnvPool/CartPole-v1"):
        view = make_cleanrl(env_id, 3, max_episode_steps=4)
        assert type(view.unwrapped).__name__ == "EnvPoolVectorEnv"
        assert (view.num_envs, view.single_action_space.dtype) == (3, np.int64)
        view.reset(seed=0)
        for index in range(4):
            infos = view.step(np.full(3, index % 2))[-1]
        assert logged_returns(infos) == [(4.0, 4)] * 3
        view.close()
    with pytest.raises(ArgumentError, match="SAME_STEP"):
        make_cleanrl("EnvPool/CartPole-v1", autoreset_mode="NextStep")


@pytest.mark.filterwarnings("ignore:.*precision lowered")
def test_timeouts__bootstrap_from_what_the_pool_itself_reached() -> None:
    """The transitions that a script stores, against EnvPool's own pool with the same actions."""
    envpool = pytest.importorskip("envpool")
    view = make_cleanrl("EnvPool/Pendulum-v1", 2, seed=1)
    pool = envpool.make_gymnasium("Pendulum-v1", num_envs=2, seed=1)
    obs, _ = view.reset(seed=1)
    before, _ = pool.reset()
    cuts = 0
    for _ in range(450):
        actions = np.array([view.single_action_space.sample() for _ in range(2)])
        obs, _, terminations, truncations, infos = view.step(actions)
        after, _, _, cut, _ = pool.step(actions)
        np.testing.assert_array_equal(true_next_obs(obs, truncations, infos), after)
        np.testing.assert_array_equal(truncations, cut)
        assert not terminations.any()
        if cut.any():
            cuts += 1
            after = pool.step(actions)[0]
            assert not np.array_equal(infos["final_observation"][0], obs[0])
        np.testing.assert_array_equal(obs, after)
        assert not np.array_equal(before, after)
        before = after
    assert cuts == 2
    view.close()


class BareBatch(VectorEnv[Any, Any, np.ndarray]):
    """A batch that gives its last observations as one array and no last infos, as ALE's does."""

    def __init__(self) -> None:
        self.num_envs = 2
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = spaces.Box(0, 9, (2,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, 2)
        self.action_space = batch_space(self.single_action_space, 2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((2, 2), np.float32), {}

    def step(self, actions: Any) -> Any:
        over = np.array([False, True])
        infos = {"final_obs": np.full((2, 2), 7, np.float32)}
        return np.zeros((2, 2), np.float32), np.ones(2), over, ~over & False, infos


def test_batch_without_last_infos__has_the_record_alone() -> None:
    view = CleanRLVectorEnv(BareBatch())
    view.reset()
    infos = view.step(np.array([0, 0]))[-1]
    assert infos["final_info"][0] is None
    assert infos["final_info"][1].keys() == {"episode"}
    assert infos["final_observation"][0] is None
    assert_same(infos["final_observation"][1], np.array([7, 7], np.float32))


def test_batch_without_last_observations__is_refused_when_an_episode_ends() -> None:
    class Forgetful(VectorWrapper):
        def step(self, actions: Any) -> Any:
            outputs = self.env.step(actions)
            outputs[-1].pop("final_obs", None)
            return outputs

    view = CleanRLVectorEnv(Forgetful(scripted_vector_env([2, 3], autoreset_mode="SameStep")))
    view.reset()
    view.step(np.zeros(2, np.int64))
    with pytest.raises(EnvContractError, match=r"`envs` ended .* \[0\] without"):
        view.step(np.zeros(2, np.int64))
