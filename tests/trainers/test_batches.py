"""Batches for trainers: made from an id, and refused where a view cannot read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.wrappers import TransformReward

from gymbridge.errors import ArgumentError, ArgumentTypeError, EnvContractError
from gymbridge.testing import scripted_vector_env
from gymbridge.trainers.batches import make_same_step
from gymbridge.trainers.cleanrl import CleanRLVectorEnv
from gymbridge.trainers.cleanrl.envpool import OldGymVectorEnv
from tests.support.references import WalkEnv, make_scripted_envs, sync
from tests.support.strategies import Script


def sb3_view(envs: Any) -> Any:
    pytest.importorskip("stable_baselines3")
    from gymbridge.trainers.sb3 import Sb3VecEnv

    return Sb3VecEnv(envs)


VIEWS = [
    (CleanRLVectorEnv, "SameStep", r"`make_cleanrl\(env_id, num_envs\)` builds one"),
    (sb3_view, "SameStep", "Stable-Baselines3 takes a single environment as it is"),
    (OldGymVectorEnv, "NextStep", r"`make_cleanrl_envpool\(task_id, num_envs=...\)` builds one"),
]

SCRIPT = Script(np.array([[2], [3]]), np.array([[False], [False]]))


def scripted(mode: str) -> VectorEnv[Any, Any, Any]:
    return scripted_vector_env(*SCRIPT, autoreset_mode=mode)


@pytest.mark.parametrize(("view", "mode", "hint"), VIEWS)
@pytest.mark.parametrize("other", ["NextStep", "SameStep", "Disabled"])
def test_view__needs_its_autoreset_mode(view: Any, mode: str, hint: str, other: str) -> None:
    nameless = scripted(mode)
    nameless.metadata = {}
    with pytest.raises(ArgumentError, match="got None; build it with"):
        view(nameless)
    theirs = sync(make_scripted_envs(SCRIPT), other)
    for envs in (scripted(other), theirs, VectorWrapper(theirs)):
        if other == mode:
            assert view(envs).num_envs == 2
            continue
        wrong = f"got {other}; build it with `autoreset_mode='{mode}'`"
        with pytest.raises(ArgumentError, match=wrong):
            view(envs)


@pytest.mark.parametrize(("view", "mode", "hint"), VIEWS)
@pytest.mark.parametrize("other", ["CartPole-v1", WalkEnv()])
def test_view__needs_a_batch(view: Any, mode: str, hint: str, other: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=rf"VectorEnv, got {type(other).__name__}; {hint}"):
        view(other)


class Silent(VectorWrapper):
    """A batch without infos."""

    def step(self, actions: Any) -> Any:
        *rest, _ = self.env.step(actions)
        return *rest, {}


@pytest.mark.parametrize(("view", "mode", "hint"), VIEWS[:2])
def test_view__needs_final_observations(view: Any, mode: str, hint: str) -> None:
    envs = view(Silent(scripted(mode)))
    envs.reset()
    envs.step(np.zeros(2, np.int64))
    with pytest.raises(EnvContractError, match=r"ended .* \[0\] without `infos\['final_obs'\]`"):
        envs.step(np.zeros(2, np.int64))


def test_make_same_step__imports_the_module_of_an_id_and_hands_keywords_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
import gymnasium
from gymbridge.testing import scripted_vector_env

def make(num_envs, length, **kwargs):
    return scripted_vector_env([length] * num_envs, **kwargs)

gymnasium.register("TrainersTest/Module-v0", vector_entry_point=make)
"""
    (tmp_path / "trainers_test_ids.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        envs: Any = make_same_step("trainers_test_ids:TrainersTest/Module-v0", 3, {"length": 5})
    finally:
        gym.registry.pop("TrainersTest/Module-v0", None)
    assert envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert envs.get_attr("lengths")[0].tolist() == [[5], [5], [5]]


@pytest.mark.filterwarnings("ignore:.*Using the latest versioned environment")
def test_make_same_step__takes_the_newest_version_of_an_id_without() -> None:
    envs: Any = make_same_step("CartPole", 2, {"max_episode_steps": 5})
    assert isinstance(envs, SyncVectorEnv)
    assert {env.spec.id for env in envs.envs} == {"CartPole-v1"}
    assert {env.spec.max_episode_steps for env in envs.envs} == {5}


def test_make_same_step__runs_an_id_with_wrappers_in_sync_vector_env(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it runs every id of another package, whether that has a batch of its own or not."""
    wrapper = TransformReward.wrapper_spec(func=lambda reward: 2 * reward)
    spec = EnvSpec(
        "TrainersTest/Wrapped-v0",
        entry_point=CartPoleEnv,
        vector_entry_point=CartPoleVectorEnv,
        additional_wrappers=(wrapper,),
    )
    monkeypatch.setitem(gym.registry, spec.id, spec)
    envs = make_same_step(spec.id, 2, {})
    envs.reset(seed=0)
    assert envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert envs.step(np.zeros(2, int))[1].tolist() == [2, 2]
