"""Batches that views make of an id; `test_table.py` has those that they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TransformReward

from gymbridge.trainers.batches import make_same_step


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
