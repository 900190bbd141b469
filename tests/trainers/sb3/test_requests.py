"""What the view asks of a batch: seeds and options reach it, and what it cannot read is refused."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorWrapper
from gymnasium.wrappers import FlattenObservation
from gymnasium.wrappers import vector as wrappers

import gymbridge  # noqa: F401
from gymbridge.testing import scripted_vector_env

pytest.importorskip("stable_baselines3")

from sb3_samples import (
    SEED,
    KindsEnv,
    assert_like,
    scripted,
    scripted_dummy,
    sync,
)

from gymbridge.errors import ArgumentError, ArgumentTypeError, EnvContractError
from gymbridge.trainers.sb3 import Sb3VecEnv


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


@pytest.mark.parametrize("seed", [0, 2**31 - 2, 2**31, 2**32 - 2])
@pytest.mark.parametrize("is_drawn", [False, True])
def test_seed__of_any_size_is_kept(
    seed: int, is_drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("envpool")
    envs = gym.make_vec("EnvPool/CartPole-v1", num_envs=5, autoreset_mode="SameStep")
    view = Sb3VecEnv(envs)
    monkeypatch.setattr(np.random, "randint", lambda *args, **kwargs: seed)
    seeds = view.seed(None if is_drawn else seed)
    assert seeds == list(range(seed, seed + 5))
    view.reset()
    assert list(envs.np_random_seed) == seeds


@pytest.mark.parametrize("make", [scripted, lambda: sync(KindsEnv)])
def test_negative_seed__is_refused_and_changes_nothing(make: Any) -> None:
    view = make()
    view.seed(7)
    with pytest.raises(ArgumentError, match=r"`seed` must be 0 or more, got -1"):
        view.seed(-1)
    view.reset()
    assert view.get_attr("np_random_seed") == [7, 8, 9, 10]


@pytest.mark.parametrize("seed", [2.7, "7", True, [5, 9]])
@pytest.mark.parametrize("make", [scripted, lambda: sync(KindsEnv)])
def test_seed_of_another_type__is_refused(make: Any, seed: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="`seed` must be"):
        make().seed(seed)


@pytest.mark.parametrize("options", [3, ["a", "b", "c", "d"]])
def test_options_of_another_type__are_refused(options: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="`options` must be a dict or a list of dicts"):
        scripted().set_options(options)


def test_options__of_none_are_none() -> None:
    view = scripted()
    view.set_options([None] * view.num_envs)
    view.reset()


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
