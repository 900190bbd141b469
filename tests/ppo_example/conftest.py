"""The script as a module, with an agent and rollouts on scripted episodes."""

from __future__ import annotations

import importlib.util
import sys

import pytest
from ppo_episodes import LENGTHS, NUM_STEPS, PPO, TRUNCATES

from gymbridge.testing import scripted_vector_env

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")


@pytest.fixture(scope="module")
def ppo():
    spec = importlib.util.spec_from_file_location("ppo", PPO)
    module = importlib.util.module_from_spec(spec)
    sys.modules["ppo"] = module  # its dataclass looks itself up there
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PPO.parent)  # where a script finds the modules beside it
        spec.loader.exec_module(module)
    return module


@pytest.fixture
def args(ppo):
    return ppo.Args(num_envs=len(LENGTHS), num_steps=NUM_STEPS, gamma=0.9, gae_lambda=0.8)


@pytest.fixture
def agent(ppo):
    """An agent for the scripted task whose critic tells observations apart."""
    torch.manual_seed(0)
    envs = scripted_vector_env(LENGTHS)
    return ppo.Agent(envs)


@pytest.fixture
def rollouts(ppo, args, agent):
    """Four rollouts on scripted episodes, each with the values of the observations after it."""
    steps = ppo.rollouts(scripted_vector_env(LENGTHS, TRUNCATES), agent, args)
    return [next(steps) for _ in range(4)]
