"""The examples of TorchRL and rsl_rl run on a tiny budget, and at their own reach their bars.

In the quick tests they run in this process, in the slow ones as a user runs them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from gymbridge.command_line import main
from gymbridge.trainers.torchrl import make_torchrl
from tests.support.example_runs import (
    EXAMPLES,
    call_script,
    check_picture,
    load_script,
    read_table,
    run_script,
)

MEAN = re.compile(r"(\S+): mean return (\S+?),? ")


def mean_of(printed: Any) -> float:
    """Return the mean return in the last line of a script."""
    return float(MEAN.match(printed.lines[-1])[2])


@pytest.mark.parametrize("env_id", ["EnvPool/Pendulum-v1", "EnvPool/HalfCheetah-v5"])
def test_torchrl_ppo__trains_and_writes_its_curve(env_id: str, tmp_path: Path) -> None:
    budget = ("--env-id", env_id, "--total-steps", 2048, "--num-envs", 4, "--epochs", 1)
    flags = (*budget, "--num-steps", 256, "--out", tmp_path)
    assert "2.05k/2.05k" in call_script("torchrl_ppo", *flags, cwd=tmp_path).log
    table = read_table(tmp_path / "progress.csv")
    assert table["env_steps"].tolist() == [1024, 2048]
    assert 0 < table["seconds"][0] < table["seconds"][1]
    if env_id == "EnvPool/Pendulum-v1":  # its episodes have 200 steps
        policy = f"--evaluate={tmp_path}/policy.pt"
        assert -2000 < mean_of(call_script("torchrl_ppo", *budget, policy, cwd=tmp_path)) < 0
    check_picture(tmp_path / "learning_curve.png")


def test_torchrl_ppo__has_the_bounds_of_the_task() -> None:
    """Pendulum's actions are in [-2, 2]."""
    script = load_script(EXAMPLES / "torchrl_ppo.py")
    bounds = script.action_bounds(make_torchrl("EnvPool/Pendulum-v1", 2))
    torch.manual_seed(0)
    network = script.Network(3, 1)
    for weights in network.parameters():
        weights.data *= 20  # to reach both ends
    policy, obs = script.Policy(network, **bounds), torch.randn(300, 3)
    actor, _ = script.make_models(network, 3, bounds)
    drawn = actor(TensorDict({"observation": obs}, [300]))["action"]
    for actions in (policy(obs), drawn):
        assert 1.9 < actions.max() <= 2
        assert -2 <= actions.min() < -1.9
    for task in ("CartPole-v1", "CheetahRun-v1"):
        with pytest.raises(SystemExit, match="must be flat Boxes here"):
            script.action_bounds(make_torchrl(f"EnvPool/{task}", 2))


def test_rsl_rl_ppo__trains_and_evaluates(tmp_path: Path) -> None:
    budget = ("--num-envs", 4, "--num-steps", 256, "--iterations", 2, "--out", tmp_path)
    for _ in range(2):  # the folder keeps the log of the first run
        printed = call_script("rsl_rl_ppo", *budget, cwd=tmp_path)
    assert "Learning iteration 1/2" in printed.out
    table = read_table(tmp_path / "progress.csv")
    assert table["env_steps"].tolist() == [1024, 2048]
    assert 0 < table["seconds"][0] < table["seconds"][1]
    assert (table["mean_return"] < 0).all()
    assert (tmp_path / "model_1.pt").exists()
    check_picture(tmp_path / "learning_curve.png")
    flags = ("--num-envs", 4, "--evaluate", tmp_path / "policy.pt")
    for mean in (mean_of(printed), mean_of(call_script("rsl_rl_ppo", *flags, cwd=tmp_path))):
        assert -2000 < mean < 0
    policy = str(tmp_path / "policy.pt")
    assert main(["rollout", "EnvPool/Pendulum-v1", "--policy", policy, "--steps", "3"]) == 0


def test_rsl_rl_ppo__writes_a_policy_for_a_dict_of_observations(tmp_path: Path) -> None:
    """Each of them is a group of its own."""
    env_id = "EnvPool/PendulumSwingup-v1"
    budget = ("--num-envs", 4, "--num-steps", 4, "--iterations", 1, "--out", tmp_path)
    call_script("rsl_rl_ppo", "--env-id", env_id, *budget, cwd=tmp_path)
    policy = str(tmp_path / "policy.pt")
    assert main(["rollout", env_id, "--policy", policy, "--steps", "3"]) == 0


@pytest.mark.slow
def test_torchrl_ppo__solves_the_pendulum(tmp_path: Path) -> None:
    assert mean_of(run_script("torchrl_ppo", "--out", tmp_path)) > 800


@pytest.mark.slow
def test_rsl_rl_ppo__swings_the_pendulum_up(tmp_path: Path) -> None:
    assert mean_of(run_script("rsl_rl_ppo", "--out", tmp_path)) > -450
    table = read_table(tmp_path / "progress.csv")
    assert table["env_steps"][-1] == 150 * 64 * 64
    assert (np.diff(table["env_steps"]) > 0).all()
    assert (np.diff(table["seconds"]) > 0).all()
    returns = table["mean_return"]
    assert returns[0] < -1000 < -450 < returns[-1]


@pytest.mark.slow
def test_benchmark__prints_its_rows(tmp_path: Path) -> None:
    # In 20 steps, three rollouts of which are 15, TorchRL's wrapper would compile again.
    flags = ("--rounds=1", "--steps=5")
    printed = call_script("benchmarks/trainers_step", *flags, cwd=tmp_path)
    assert re.findall(r"\| <= (\S+) \|", printed.out) == ["1.50", "0.05", "1.05", "1.10"]
    assert (tmp_path / "runs" / "trainers_step.json").exists()
