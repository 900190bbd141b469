"""sbx, whose algorithms take what Stable-Baselines3's take, trains on every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sbx import PPO, SAC

from gymbridge.trainers.sb3 import Sb3VecEnv, make_vec_env
from tests.trainers.test_table import ENGINES, make_batch


@pytest.mark.parametrize("engine", ENGINES)
def test_sac__trains_on_every_engine(engine: str) -> None:
    envs = Sb3VecEnv(make_batch(engine, "numpy", "SameStep"))
    model = SAC("MlpPolicy", envs, learning_starts=20, batch_size=16, seed=0)
    model.learn(60)
    buffer: Any = model.replay_buffer
    assert buffer.pos == 15
    assert np.isfinite(buffer.rewards[:15]).all()
    if engine != "playground":
        assert buffer.timeouts[4].all()  # the limit of these batches is 5 steps
        assert (buffer.next_observations[4] != buffer.observations[5]).any()


@pytest.mark.slow
def test_ppo__learns() -> None:
    envs = make_vec_env("EnvPool/CartPole-v1", n_envs=8, seed=0)
    options = {"n_steps": 64, "batch_size": 256, "n_epochs": 8, "learning_rate": 1e-3}
    model = PPO("MlpPolicy", envs, seed=0, **options)
    model.learn(40_000)
    assert np.mean([episode["r"] for episode in model.ep_info_buffer]) > 200
