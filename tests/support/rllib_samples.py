"""What the tests of RLlib share; they run where Ray is installed."""

from __future__ import annotations

from typing import Any

import pytest

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")
ppo = pytest.importorskip("ray.rllib.algorithms.ppo")
rllib = pytest.importorskip("gymbridge.trainers.rllib")

CARTPOLE = "gymbridge:EnvPool/CartPole-v1"
PENDULUM = "gymbridge:Brax/inverted_pendulum-v0"
SEED, NUM_ENVS = 3, 8


def make_config(env: Any, num_env_runners: int = 0, **env_config: Any) -> Any:
    return (
        ppo.PPOConfig()
        .environment(env, env_config=env_config)
        .env_runners(
            env_runner_cls=rllib.BridgeEnvRunner,
            gym_env_vectorize_mode="vector_entry_point",
            num_env_runners=num_env_runners,
            num_envs_per_env_runner=NUM_ENVS,
            sample_timeout_s=300,  # the first sample waits for Brax's compiler
        )
        .training(train_batch_size_per_learner=512, minibatch_size=256, num_epochs=2)
        .debugging(seed=SEED)
    )
