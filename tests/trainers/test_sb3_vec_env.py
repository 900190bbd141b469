"""Step by step, the view gives what SB3's own `DummyVecEnv` gives, and what it gives is yours."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorWrapper
from gymnasium.wrappers import FlattenObservation
from gymnasium.wrappers import vector as wrappers
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Script, limits, scripts
from trees import scribble

import gymbridge  # noqa: F401
from gymbridge.testing import scripted_vector_env

pytest.importorskip("stable_baselines3")

from sb3_samples import (
    LENGTHS,
    SEED,
    TRUNCATES,
    KindsEnv,
    assert_like,
    compare,
    dummy,
    scripted,
    scripted_dummy,
    sync,
)

from gymbridge.errors import ArgumentError, ArgumentTypeError, EnvContractError
from gymbridge.trainers.sb3 import Sb3VecEnv


def short_cart_pole() -> gym.Env[Any, Any]:
    return gym.make("CartPole-v1", max_episode_steps=12)


def pendulum() -> gym.Env[Any, Any]:
    return gym.make("Pendulum-v1", max_episode_steps=5)


class TupleEnv(KindsEnv):
    """The same with a `Tuple` observation."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Tuple((self.observation_space["image"], spaces.Discrete(9)))

    def _observe(self) -> Any:
        obs = super()._observe()
        return obs["image"], obs["kind"]


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


def test_scripted_batch__gives_what_dummy_vec_env_gives() -> None:
    seen = compare(scripted(), scripted_dummy(), 40)
    assert min(seen["terminated"], seen["truncated"]) > 10


@given(script=scripts(), limit=limits())
def test_any_script__gives_what_dummy_vec_env_gives(script: Script, limit: int | None) -> None:
    view = scripted(script.lengths, script.truncates, max_episode_steps=limit)
    compare(view, scripted_dummy(script.lengths, script.truncates, limit), 12)


@given(length=st.integers(1, 4), num_envs=st.integers(1, 3))
@settings(max_examples=10)
def test_infos_of_every_kind__are_what_dummy_vec_env_gives(length: int, num_envs: int) -> None:
    seen = compare(
        sync(lambda: KindsEnv(length), num_envs), dummy(lambda: KindsEnv(length), num_envs), 10
    )
    assert seen["terminated"] >= num_envs


@pytest.mark.parametrize("make", [short_cart_pole, pendulum, TupleEnv])
def test_sync_vector_env__gives_what_dummy_vec_env_gives(make: Any) -> None:
    seen = compare(sync(make), dummy(make), 60)
    assert seen["truncated"] > 0


def test_buffers_of_the_batch__are_copied() -> None:
    seen = compare(sync(KindsEnv, copy=False), dummy(KindsEnv), 12)
    assert seen["terminated"] > 0


def test_async_vector_env__gives_what_dummy_vec_env_gives() -> None:
    make = partial(gym.make, "CartPole-v1", max_episode_steps=12)  # light to import for a worker
    mode = AutoresetMode.SAME_STEP
    view = Sb3VecEnv(AsyncVectorEnv([make] * 2, autoreset_mode=mode, context="spawn"))
    assert compare(view, dummy(short_cart_pole, 2), 40)["truncated"] > 0
    assert view.get_attr("x_threshold", 1) == [2.4]
    assert not view.has_attr("no_such_thing")
    view.set_attr("x_threshold", 3.5, indices=[1])
    assert view.get_attr("x_threshold") == [2.4, 3.5]
    assert view.env_method("has_wrapper_attr", "gravity") == [True, True]
    with pytest.raises(ArgumentError, match=r"`indices` must be None for AsyncVectorEnv"):
        view.env_method("has_wrapper_attr", "gravity", indices=[0])
    view.close()


def test_vector_wrappers__count() -> None:
    def doubled() -> gym.Env[Any, Any]:
        return gym.wrappers.TransformReward(KindsEnv(), lambda reward: 2 * reward)

    envs = SyncVectorEnv([KindsEnv] * 4, autoreset_mode=AutoresetMode.SAME_STEP)
    view = Sb3VecEnv(wrappers.TransformReward(envs, lambda rewards: 2 * rewards))
    assert compare(view, dummy(doubled), 12)["truncated"] > 0


def test_statistics_of_gymnasium__reach_the_infos_of_the_ended_episode() -> None:
    envs = scripted_vector_env(LENGTHS, TRUNCATES, autoreset_mode="SameStep")
    view = Sb3VecEnv(wrappers.RecordEpisodeStatistics(envs))
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


def test_what_a_step_returns__is_writable_and_never_changes_later() -> None:
    for make in (scripted, lambda: sync(KindsEnv), lambda: sync(KindsEnv, copy=False)):
        view, spoilt = make(), make()
        for one in (view, spoilt):
            one.seed(SEED)
        kept = [(shown := view.reset(), copy.deepcopy(shown))]
        scribble(spoilt.reset())
        scribble(spoilt.reset_infos)
        for _ in range(14):
            expected = view.step(np.ones(4, np.int64))
            kept.append(((expected, view.reset_infos), copy.deepcopy((expected, view.reset_infos))))
            actual = spoilt.step(np.ones(4, np.int64))
            assert_like(actual, expected)
            scribble_step(actual)
        for shown, as_it_was in kept:
            assert_like(
                *(part[0] if isinstance(part, tuple) else part for part in (shown, as_it_was))
            )


def scribble_step(step: Any) -> None:
    obs, rewards, dones, infos = step
    scribble((obs, rewards, dones, *infos))


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
    _, rewards, dones, infos = view.step(np.ones(4, np.int64))
    assert (rewards.dtype, dones.dtype) == (np.float32, np.bool_)
    assert type(infos) is list
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


def test_seed__is_used_once() -> None:
    view, reference = scripted(), scripted_dummy()
    for env in (view, reference):
        assert env.seed(SEED) == [SEED + index for index in range(4)]
        env.reset()
    first = [info["draw"] for info in view.reset_infos]
    view.reset()
    reference.reset()
    assert_like(view.reset_infos, reference.reset_infos)
    assert [info["draw"] for info in view.reset_infos] != first
    assert view.get_attr("np_random_seed") == [SEED + index for index in range(4)]


def test_no_seed__does_not_seed_again() -> None:
    view = scripted()
    view.seed(SEED)
    view.reset()
    draws = []
    for _ in range(3):
        view.reset()
        draws.append(view.reset_infos[0]["draw"])
    assert len(set(draws)) == 3


@pytest.mark.parametrize("drawn", [0, 2**31 - 2, 2**31 - 1, 2**31, 2**32 - 2])
@pytest.mark.parametrize("num_envs", [1, 5])
def test_drawn_seed__is_folded_into_the_range_of_the_engine(
    drawn: int, num_envs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("envpool")
    envs = gym.make_vec("EnvPool/CartPole-v1", num_envs=num_envs, autoreset_mode="SameStep")
    view = Sb3VecEnv(envs)
    monkeypatch.setattr(np.random, "randint", lambda *args, **kwargs: drawn)
    seeds = view.seed()
    assert seeds == list(range(seeds[0], seeds[0] + num_envs))
    assert seeds[-1] <= 2**31 - 1
    if drawn + num_envs <= 2**31:
        assert seeds[0] == drawn
    view.reset()
    assert list(envs.np_random_seed) == seeds


def test_drawn_seed__reaches_all_that_an_engine_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np.random, "randint", lambda *args, **kwargs: 2**32 - 2)
    assert scripted([1], [False]).seed() == [2**32 - 2]
    assert scripted([1] * 4, [False] * 4).seed() == [1, 2, 3, 4]
    assert sync(KindsEnv, 1).seed()[0] < 2**31


@pytest.mark.parametrize("seed", [2**31 - 4, 2**32])
def test_given_seed__is_kept_or_refused(seed: int) -> None:
    pytest.importorskip("envpool")
    view = Sb3VecEnv(gym.make_vec("EnvPool/CartPole-v1", num_envs=4, autoreset_mode="SameStep"))
    if seed < 2**31:
        assert view.seed(seed) == [seed, seed + 1, seed + 2, seed + 3]
    else:
        view.seed(7)
        with pytest.raises(ArgumentError, match=r"`seed` must lie in 0 to 2147483647"):
            view.seed(seed)
        view.reset()
        assert view.get_attr("np_random_seed") == [7, 8, 9, 10]


def test_options__reach_the_next_reset_alone() -> None:
    view = sync(KindsEnv, 2)
    for options in ({"level": 3}, [{"level": 3}, {"level": 3}]):
        view.set_options(options)
        view.reset()
        assert view.get_attr("options") == [{"level": 3}, {"level": 3}]
        view.reset()
        assert view.get_attr("options") == [None, None]
    view.set_options({"place": np.arange(2)})
    view.set_options()
    view.reset()
    assert view.get_attr("options") == [None, None]


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ([{"level": 1}, {"level": 2}], "must be the same for all environments"),
        ([{"place": np.arange(2)}, {"place": np.ones(2, np.int64)}], "must be the same"),
        ([{"level": 1}], "one dict for each of the 2 environments, got 1"),
        ({"reset_mask": np.ones(2, bool)}, "must not have 'reset_mask'"),
    ],
)
def test_options__that_a_batch_cannot_take_are_refused(options: Any, rule: str) -> None:
    view = sync(KindsEnv, 2)
    view.set_options({"level": 9})
    with pytest.raises(ArgumentError, match=rule):
        view.set_options(options)
    view.reset()
    assert view.get_attr("options") == [{"level": 9}] * 2


@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_other_modes__are_refused_with_the_one_to_ask_for(mode: str) -> None:
    third_party = SyncVectorEnv([KindsEnv], autoreset_mode=AutoresetMode(mode))
    ours = scripted_vector_env([1], autoreset_mode=mode)
    for envs in (third_party, ours, wrappers.RecordEpisodeStatistics(ours)):
        with pytest.raises(
            ArgumentError, match=rf"AutoresetMode\.{AutoresetMode(mode).name};"
        ) as e:
            Sb3VecEnv(envs)
        assert "autoreset_mode='SameStep'" in str(e.value)


def test_a_batch_that_names_no_mode__is_refused() -> None:
    envs = scripted_vector_env([1], autoreset_mode="SameStep")
    envs.metadata = {}
    with pytest.raises(ArgumentError, match=r"got None; build it with"):
        Sb3VecEnv(envs)


@pytest.mark.parametrize("other", ["CartPole-v1", None])
def test_other_things__are_refused(other: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"must be a gymnasium\.vector\.VectorEnv, got"):
        Sb3VecEnv(other)
    with pytest.raises(ArgumentTypeError, match="takes a single environment as it is"):
        Sb3VecEnv(KindsEnv())


def test_nested_observations__are_refused_with_a_way_out() -> None:
    class Nested(KindsEnv):
        def __init__(self) -> None:
            super().__init__()
            self.inner = self.observation_space
            self.observation_space = spaces.Dict({"outer": self.inner})

        def _observe(self) -> Any:
            return {"outer": super()._observe()}

    envs = SyncVectorEnv([Nested], autoreset_mode=AutoresetMode.SAME_STEP)
    with pytest.raises(ArgumentError, match=r"nested once at most.*FlattenObservation"):
        Sb3VecEnv(envs)
    assert sync(lambda: FlattenObservation(Nested()), 1).reset().shape == (1, 71)


class Changed(VectorWrapper):
    """A batch whose outputs a function changes."""

    def __init__(self, env: Any, change: Any) -> None:
        super().__init__(env)
        self.change = change

    def reset(self, **kwargs: Any) -> Any:
        return self.change(self.env.reset(**kwargs))

    def step(self, actions: Any) -> Any:
        return self.change(self.env.step(actions))


def test_a_batch_without_last_observations__is_refused_when_an_episode_ends() -> None:
    def forget(outputs: Any) -> Any:
        outputs[-1].pop("final_obs", None)
        return outputs

    view = Sb3VecEnv(Changed(scripted_vector_env([2, 3], autoreset_mode="SameStep"), forget))
    view.reset()
    view.step(np.zeros(2, np.int64))
    with pytest.raises(
        EnvContractError, match=r"environments \[0\] without `infos\['final_obs'\]`"
    ):
        view.step(np.zeros(2, np.int64))


def test_last_observations_in_arrays__are_taken_apart() -> None:
    """Some batches give one array with every row instead of objects, and no final infos."""

    def pack(outputs: Any) -> Any:
        infos = outputs[-1]
        if "final_obs" in infos:
            rows = [{"kind": -1} if row is None else row for row in infos["final_obs"]]
            infos["final_obs"] = {"kind": np.array([row["kind"] for row in rows])}
            del infos["final_info"]
        return outputs

    view = Sb3VecEnv(Changed(sync(KindsEnv, 2).vector_env, pack))
    view.reset()
    for _ in range(3):
        _, _, dones, infos = view.step(np.zeros(2, np.int64))
    assert dones.all()
    assert_like(infos, [{"terminal_observation": {"kind": 3}, "TimeLimit.truncated": False}] * 2)


def test_arrays_of_other_libraries__are_refused() -> None:
    torch = pytest.importorskip("torch")

    def to_torch(outputs: Any) -> Any:
        return (torch.as_tensor(outputs[0]), *outputs[1:])

    view = Sb3VecEnv(Changed(scripted_vector_env([2], autoreset_mode="SameStep"), to_torch))
    with pytest.raises(ArgumentTypeError, match=r"must return numpy arrays.*got Tensor"):
        view.reset()
