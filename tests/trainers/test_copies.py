"""Copies of our wrappers and of trainers' views run a batch of their own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest

from gymbridge import BraxVectorEnv, wrappers
from gymbridge.trainers.cleanrl import CleanRLVectorEnv
from gymbridge.trainers.cleanrl.scaling import ScaledVectorEnv

pytest.importorskip("brax.envs")


class View(NamedTuple):
    """How a view is made, where its batch is, and its first reset and one step."""

    make: Callable[[], Any]
    batch: Callable[[Any], Any]
    run: Callable[[Any], Any]


def make_batch(arrays: str = "numpy", mode: str = "SameStep") -> BraxVectorEnv:
    pytest.importorskip(arrays)
    return BraxVectorEnv("fast", 2, arrays=arrays, autoreset_mode=mode)


def run_gymnasium(view: Any) -> None:
    view.reset(seed=0)
    view.step(np.zeros((2, 1), np.float32))


def run_tensors(view: Any) -> None:
    import torch

    view.reset()
    view.step(torch.zeros(2, 1))


def run_numpy(view: Any) -> None:
    view.reset()
    view.step(np.zeros((2, 1), np.float32))


def run_single(view: Any) -> None:
    view.reset(seed=0)
    view.step(np.zeros(1, np.float32))


def make_sb3() -> Any:
    pytest.importorskip("stable_baselines3")
    from gymbridge.trainers.sb3 import Sb3VecEnv

    return Sb3VecEnv(make_batch())


def make_rsl_rl() -> Any:
    pytest.importorskip("rsl_rl")
    from gymbridge.trainers.rsl_rl import RslRlVecEnv

    return RslRlVecEnv(make_batch("torch"), cfg={"name": "fast"})


def make_skrl() -> Any:
    pytest.importorskip("skrl")
    from gymbridge.trainers.skrl import SkrlWrapper

    return SkrlWrapper(make_batch("torch", "NextStep"))


def make_torchrl() -> Any:
    pytest.importorskip("torchrl")
    from gymbridge.trainers.torchrl import TorchRLEnv

    return TorchRLEnv(make_batch("torch", "Disabled"), categorical_action_encoding=True)


def make_statistics(arrays: str) -> Callable[[], Any]:
    return lambda: wrappers.RecordEpisodeStatistics(make_batch(arrays), "seen")


VIEWS = {
    "statistics, torch": View(make_statistics("torch"), lambda v: v.env, run_gymnasium),
    "statistics, jax": View(make_statistics("jax"), lambda v: v.env, run_gymnasium),
    "cleanrl": View(lambda: CleanRLVectorEnv(make_batch()), lambda v: v.env, run_gymnasium),
    "scaled": View(
        lambda: ScaledVectorEnv(CleanRLVectorEnv(make_batch())),
        lambda v: v.env.env,
        run_gymnasium,
    ),
    "single": View(lambda: gym.make("Brax/fast-v0").unwrapped, lambda v: v.envs, run_single),
    "sb3": View(make_sb3, lambda v: v.vector_env, run_numpy),
    "rsl_rl": View(make_rsl_rl, lambda v: v.envs, run_tensors),
    "skrl": View(make_skrl, lambda v: v._env, run_tensors),
    "torchrl": View(make_torchrl, lambda v: v.envs, lambda v: v.rollout(2)),
}


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("name", VIEWS)
def test_copy__runs_a_batch_of_its_own(name: str, duplicate: Callable[[Any], Any]) -> None:
    view = VIEWS[name]
    first = view.make()
    view.run(first)
    batch = view.batch(first)
    before = batch.get_state()
    second = duplicate(first)
    assert type(second) is type(first)
    other = view.batch(second)
    assert other is not batch
    assert other._runner is batch._runner  # what is compiled
    view.run(second)
    second.close()
    after = batch.get_state()
    for leaf, found in before.leaves.items():
        assert np.array_equal(found, after.leaves[leaf]), leaf
    view.run(first)


def test_copy_of_scaled_batch__keeps_the_moments() -> None:
    first = ScaledVectorEnv(CleanRLVectorEnv(make_batch()))
    run_gymnasium(first)
    second = copy.copy(first)
    assert second.observation_moments is not first.observation_moments
    assert np.array_equal(second.observation_moments.count, first.observation_moments.count)


def test_copy_of_torchrls_view__keeps_its_encoding() -> None:
    first = make_torchrl()
    assert copy.copy(first).full_action_spec == first.full_action_spec


def test_copy_of_game_monitor__is_around_its_own_batch() -> None:
    pytest.importorskip("envpool.registration")
    pytest.importorskip("stable_baselines3")
    from gymbridge.trainers.sb3 import make_atari_env

    first = make_atari_env("EnvPool/Pong-v5", 1)
    second = copy.copy(first)
    assert second.venv.vector_env is not first.venv.vector_env
    first.close()
    second.reset()
    second.close()
