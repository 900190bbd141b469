"""The examples of TorchRL and rsl_rl, and the benchmark of their views."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool.registration")
pytest.importorskip("tqdm")

EXAMPLES = Path(__file__).parents[1] / "examples"
MEAN = re.compile(r"(\S+): mean return (\S+?),? ")


def run_script(name: str, *arguments: Any) -> tuple[str, float]:
    """Return all that a script prints, and the mean return in its last line."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout + done.stderr, float(MEAN.match(done.stdout.splitlines()[-1])[2])


@pytest.mark.parametrize("env_id", ["EnvPool/Pendulum-v1", "EnvPool/HalfCheetah-v5"])
def test_torchrl_ppo__trains_and_writes_its_curve(env_id: str, tmp_path: Path) -> None:
    pytest.importorskip("torchrl")
    budget = ("--env-id", env_id, "--total-steps", 2048, "--num-envs", 4, "--epochs", 1)
    log, _ = run_script("torchrl_ppo.py", *budget, "--num-steps", 256, "--out", tmp_path)
    assert "2.05k/2.05k" in log
    table = np.loadtxt(tmp_path / "progress.csv", delimiter=",", skiprows=1)
    assert table[:, 0].tolist() == [1024, 2048]
    assert 0 < table[0, 1] < table[1, 1]
    if env_id == "EnvPool/Pendulum-v1":  # its episodes have 200 steps
        policy = f"--evaluate={tmp_path}/policy.pt"
        assert -2000 < run_script("torchrl_ppo.py", *budget, policy)[1] < 0
    assert (tmp_path / "learning_curve.png").exists()


def test_torchrl_ppo__has_the_bounds_of_the_task() -> None:
    """Pendulum's actions are in [-2, 2]."""
    pytest.importorskip("torchrl")
    pytest.importorskip("matplotlib")
    import torch
    from tensordict import TensorDict

    from gymbridge.trainers.torchrl import make_torchrl

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        script = importlib.import_module("torchrl_ppo")
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


@pytest.mark.parametrize("flag", ["--total-steps", "--epochs"])
def test_torchrl_ppo__refuses_empty_budgets(flag: str) -> None:
    command = [sys.executable, str(EXAMPLES / "torchrl_ppo.py"), f"{flag}=0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{flag} must be at least 1, got 0" in done.stderr


def test_rsl_rl_ppo__trains_and_evaluates(tmp_path: Path) -> None:
    pytest.importorskip("rsl_rl.env")
    budget = ("--num-envs", 4, "--num-steps", 256, "--iterations", 2, "--out", tmp_path)
    for _ in range(2):  # the folder keeps the log of the first run
        log, mean = run_script("rsl_rl_ppo.py", *budget)
    assert "Learning iteration 1/2" in log
    table = np.loadtxt(tmp_path / "progress.csv", delimiter=",", skiprows=1)
    assert table[:, 0].tolist() == [1024, 2048]
    assert 0 < table[0, 1] < table[1, 1]
    assert (table[:, 2] < 0).all()
    assert -2000 < mean < 0
    assert (tmp_path / "model_1.pt").exists()
    assert (tmp_path / "learning_curve.png").exists()
    again = run_script("rsl_rl_ppo.py", "--num-envs", 4, "--evaluate", tmp_path / "policy.pt")[1]
    assert -2000 < again < 0


@pytest.mark.slow
def test_torchrl_ppo__solves_the_pendulum(tmp_path: Path) -> None:
    pytest.importorskip("torchrl")
    pytest.importorskip("brax.envs")
    log, mean = run_script("torchrl_ppo.py", "--out", tmp_path)
    assert mean > 800
    print(log[-300:])


@pytest.mark.slow
def test_rsl_rl_ppo__swings_the_pendulum_up(tmp_path: Path) -> None:
    pytest.importorskip("rsl_rl.env")
    assert run_script("rsl_rl_ppo.py", "--out", tmp_path)[1] > -450
    table = np.loadtxt(tmp_path / "progress.csv", delimiter=",", skiprows=1)
    assert table[-1, 0] == 150 * 64 * 64
    assert (np.diff(table, axis=0)[:, :2] > 0).all()
    assert table[0, 2] < -1000 < -450 < table[-1, 2]


@pytest.mark.slow
def test_benchmark__prints_its_rows(tmp_path: Path) -> None:
    for library in ("brax.envs", "torchrl", "rsl_rl.env"):
        pytest.importorskip(library)
    command = [sys.executable, str(EXAMPLES / "benchmarks/trainers_step.py")]
    command += ["--rounds=1", "--steps=25"]  # TorchRL's wrapper compiles again every 20 steps
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    bars = re.findall(r"\| <= (\S+) \|", done.stdout)
    assert bars == ["1.50", "0.05", "1.05", "1.10"]
    assert (tmp_path / "runs" / "trainers_step.json").exists()
