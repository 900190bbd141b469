"""The script as a module, with an agent and rollouts on scripted episodes."""

from __future__ import annotations

import pytest
import torch

from gymbridge.testing import scripted_vector_env
from tests.support.example_runs import EXAMPLES, load_script
from tests.support.ppo_episodes import LENGTHS, NUM_STEPS, TRUNCATES


@pytest.fixture(scope="module")
def ppo():
    return load_script(EXAMPLES / "ppo.py")


@pytest.fixture
def args(ppo):
    return ppo.Args(num_envs=len(LENGTHS), num_steps=NUM_STEPS, gamma=0.9, gae_lambda=0.8)


@pytest.fixture
def agent(ppo):
    """An agent for the scripted task whose critic tells observations apart."""
    torch.manual_seed(0)
    return ppo.Agent(scripted_vector_env(LENGTHS))


@pytest.fixture
def rollouts(ppo, args, agent):
    """Four rollouts on scripted episodes, each with the values of the observations after it."""
    steps = ppo.rollouts(scripted_vector_env(LENGTHS, TRUNCATES), agent, args)
    return [next(steps) for _ in range(4)]
