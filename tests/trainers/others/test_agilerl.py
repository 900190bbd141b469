"""AgileRL's `train_on_policy` takes a batch as it is."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from agilerl.algorithms import PPO
from agilerl.rollouts import collect_rollouts
from agilerl.training.train_on_policy import train_on_policy

from tests.support.cartpole import check_transitions
from tests.trainers.test_table import ENGINES, make_batch


def make_agent(envs: Any, learn_step: int, **options: Any) -> Any:
    spaces = envs.single_observation_space, envs.single_action_space
    net = {"encoder_config": {"hidden_size": [64]}}
    options = {"batch_size": 256, "lr": 1e-3, "update_epochs": 8, **options}
    return PPO(*spaces, num_envs=envs.num_envs, learn_step=learn_step, net_config=net, **options)


@pytest.mark.parametrize("engine", ENGINES)
def test_ppo__trains_on_every_engine(engine: str) -> None:
    envs = make_batch(engine, "numpy", "SameStep")
    agent = make_agent(envs, 16, batch_size=16)
    before = [value.clone() for value in agent.actor.state_dict().values()]
    steps = {"max_steps": 32, "evo_steps": 32, "eval_steps": 4}
    train_on_policy(envs, engine, "PPO", [agent], verbose=False, **steps)
    after = agent.actor.state_dict().values()
    assert not all(torch.equal(*pair) for pair in zip(before, after, strict=True))


def test_transitions__are_cartpole_s_until_an_episode_ends() -> None:
    """AgileRL takes each end for a termination, so it needs no final observations."""
    envs: Any = gym.make_vec(
        "EnvPool/CartPole-v1", 4, autoreset_mode="SameStep", max_episode_steps=25
    )
    step, seen = envs.step, []

    def watch(actions: Any) -> Any:
        found = step(actions)
        seen.append((found[2], found[3], found[4].get("final_obs", [None] * 4)))
        return found

    envs.step = watch
    agent = make_agent(envs, 1000)
    torch.manual_seed(0)
    collect_rollouts(agent, envs)
    buffer = agent.rollout_buffer.buffer
    obs, after, actions = (
        buffer[key].numpy().astype(np.float32)
        for key in ("observations", "next_observations", "actions")
    )
    terminations, truncations = (np.stack([row[place] for row in seen]) for place in (0, 1))
    ended = terminations | truncations
    np.testing.assert_array_equal(buffer["dones"].numpy().astype(bool), ended)
    np.testing.assert_array_equal(obs[1:], after[:-1])
    after[ended] = np.stack([row for *_, final in seen for row in final if row is not None])
    flat = [obs.reshape(1000, 4), actions.ravel(), after.reshape(1000, 4)]
    check_transitions(*flat, terminations.ravel(), truncations.ravel())


@pytest.mark.slow
def test_ppo__learns() -> None:
    torch.manual_seed(0)
    envs = gym.make_vec("EnvPool/CartPole-v1", 16, autoreset_mode="SameStep")
    agent = make_agent(envs, 1024)
    steps = {"max_steps": 30_000, "evo_steps": 10_000, "eval_steps": 500}
    _, (fitnesses,) = train_on_policy(envs, "CartPole", "PPO", [agent], verbose=False, **steps)
    assert fitnesses > 60
