"""Trainers and `examples/ppo.py` on the GPU, from end to end and small."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from rsl_rl.runners import OnPolicyRunner

from gymbridge.trainers.rsl_rl import make_rsl_rl
from gymbridge.trainers.skrl import SkrlWrapper
from gymbridge.trainers.torchrl import make_torchrl
from tests.support.example_runs import EXAMPLES, load_script, read_table, run_script
from tests.support.host_syncs import count_host_syncs, trace
from tests.support.small_batches import RSL_RL_CFG

pytestmark = pytest.mark.gpu

TASKS = ["Brax/fast-v0", "EnvPool/Pendulum-v1"]


def _act_by(policy: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda td: td.set("action", policy(td["observation"]))


@pytest.mark.parametrize("task", TASKS)
def test_torchrl__rolls_out_on_the_device(task: str, device: str, torch_device: Any) -> None:
    runs = []
    for place in ("cpu", device):
        env = make_torchrl(task, 4, max_episode_steps=5, device=place)
        policy = torch.nn.Linear(env.observation_spec["observation"].shape[-1], 1)
        torch.nn.init.constant_(policy.weight, 0.1)
        torch.nn.init.constant_(policy.bias, 0.1)
        policy.to(env.device).requires_grad_(False)
        env.set_seed(3)
        runs.append(env.rollout(12, policy=_act_by(policy), break_when_any_done=False))
    wanted, found = runs
    assert found.device == torch_device
    for key in ("observation", "done", ("next", "observation"), ("next", "reward")):
        torch.testing.assert_close(found[key].cpu(), wanted[key], rtol=1e-4, atol=1e-5)
    assert wanted["next", "done"].sum() == 8


@pytest.mark.parametrize("task", TASKS)
def test_rsl_rl__trains_on_the_device(task: str, device: str, torch_device: Any) -> None:
    torch.manual_seed(0)
    env = make_rsl_rl(task, 16, max_episode_steps=5, device=device)
    runner = OnPolicyRunner(env, copy.deepcopy(RSL_RL_CFG), device=str(env.device))
    actor = runner.alg.get_policy()
    before = [parameter.detach().clone() for parameter in actor.parameters()]
    runner.learn(2)
    after = list(actor.parameters())
    assert {parameter.device for parameter in after} == {torch_device}
    assert all(parameter.isfinite().all() for parameter in after)
    assert not all(torch.equal(*pair) for pair in zip(before, after, strict=True))
    assert env.get_observations()["policy"].device == torch_device


@pytest.mark.parametrize("task", TASKS)
def test_skrl__steps_on_the_device(task: str, device: str, torch_device: Any) -> None:
    runs = []
    for place in ("cpu", device):
        options = {"arrays": "torch", "device": place, "max_episode_steps": 5}
        options |= {"autoreset_mode": "SameStep"}
        env = SkrlWrapper(gym.make_vec(task, num_envs=4, **options))
        env.reset()
        env.unwrapped.reset(seed=3)
        actions = torch.linspace(-0.5, 0.5, 4).view(4, 1).to(env.device)
        runs.append([env.step(actions)[:4] for _ in range(7)])
    for wanted, found in zip(*runs, strict=True):
        for one, other in zip(wanted, found, strict=True):
            assert other.device == torch_device
            torch.testing.assert_close(other.cpu(), one, rtol=1e-4, atol=1e-5)


def test_ppo_example__waits_in_no_step_of_a_rollout(device: str) -> None:
    ppo = load_script(EXAMPLES / "ppo.py")
    envs = ppo.wrap(gym.make_vec("Brax/fast-v0", 16, arrays="torch", device=device), 0.99)
    agent, waits = ppo.Agent(envs).to(device), []
    for num_steps in (8, 24):
        steps = ppo.rollouts(envs, agent, ppo.Args(num_envs=16, num_steps=num_steps))
        next(steps)  # compiles
        waits.append(count_host_syncs(trace(lambda steps=steps: next(steps), device)).total())
    assert waits[0] == waits[1]


@pytest.mark.parametrize("task", TASKS)
def test_ppo_example__trains_and_plays(task: str, device: str, tmp_path: Path) -> None:
    flags = [f"--env-id={task}", "--arrays=torch", f"--device={device}", "--num-envs=16"]
    flags += ["--num-steps=8", "--epochs=1", "--total-steps=384", "--checkpoint-updates=1"]
    flags += ['--env-kwargs={"max_episode_steps": 6}']
    assert f"{task}: mean return" in run_script("ppo", *flags, cwd=tmp_path).out
    folder = tmp_path / "runs" / task
    table = read_table(folder / "progress.csv")
    assert table["env_steps"].tolist() == [128, 256, 384]
    assert np.isfinite(table["mean_return"]).all()
    policy = torch.jit.load(folder / "policy.pt", "cpu")  # as on a machine without the GPU
    obs_size = policy.actor.state_dict()["0.weight"].shape[1]
    assert policy(torch.zeros(2, obs_size)).shape == (2, 1)
