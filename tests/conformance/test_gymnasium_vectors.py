"""Ids of ours do what Gymnasium's own tests ask of vector environments.

The assertions are those of Gymnasium 1.4's `tests/vector`, in our words. Modes and infos are
compared with `SyncVectorEnv` in the other files of this folder. Left out is what no id of ours has:
environments that differ within a batch, spaces of another project's own, and worker processes.
"""

from __future__ import annotations

import gymnasium as gym
import pytest
from batches import make_task
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from trees import assert_same

pytest.importorskip("envpool.registration")

CARTPOLE = "EnvPool/CartPole-v1"
BRAX = "Brax/fast-v0"


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
def test_make_vec__takes_the_mode_as_a_keyword_of_ours(mode: AutoresetMode) -> None:
    for given in (mode, mode.value):
        assert make_task(CARTPOLE, autoreset_mode=given).metadata["autoreset_mode"] is mode
        sync = {"vectorization_mode": "sync", "vector_kwargs": {"autoreset_mode": given}}
        envs = make_task(CARTPOLE, **sync)
        assert isinstance(envs, SyncVectorEnv)
        assert envs.metadata["autoreset_mode"] == mode
        envs.close()
    with pytest.raises(gym.error.Error, match="only through kwargs"):
        make_task(CARTPOLE, vector_kwargs={"autoreset_mode": mode})
    with pytest.raises(TypeError, match="observation_mode"):
        make_task(CARTPOLE, observation_mode="different")


@pytest.mark.parametrize("env_id", [CARTPOLE, pytest.param(BRAX, marks=pytest.mark.slow)])
def test_processes_of_gymnasium__have_an_environment_each(env_id: str) -> None:
    spawn = {"context": "spawn"}  # JAX, which other tests have started, does not fork
    apart = make_task(env_id, 2, vectorization_mode="async", vector_kwargs=spawn)
    together = make_task(env_id, 2, vectorization_mode="sync")
    assert_same(list(apart.reset(seed=3)), list(together.reset(seed=3)))
    together.action_space.seed(0)
    for _ in range(12):
        actions = together.action_space.sample()
        assert_same(list(apart.step(actions)), list(together.step(actions)))
    apart.close()
    together.close()
