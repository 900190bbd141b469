"""A run of `examples/ppo.py` that was broken and resumed is the unbroken one, to the last digit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from gymbridge import BraxVectorEnv
from gymbridge.testing import scripted_vector_env
from gymbridge.testing.scripted_brax import ScriptedBraxEnv
from tests.support.example_runs import EXAMPLES, call_script, read_table

BATCH, UPDATES = 15, 7  # steps of one update, and updates of an unbroken run
SIZES = {"num_envs": 3, "num_steps": 5, "epochs": 1, "minibatches": 2, "last_episodes": 4}
DEFAULTS = {"total_steps": UPDATES * BATCH, "checkpoint_updates": 1, "learning_rate": 0.05}


@pytest.fixture(scope="module")
def envs() -> Iterator[Any]:
    """Environments whose episodes take 1 to 4 steps, and end in both ways."""
    batch = BraxVectorEnv(ScriptedBraxEnv([2, 3, 1, 4], [False, True, True, False]), 3)
    yield batch
    batch.close()


def start(ppo: Any, envs: Any, path: Path | None, **flags: Any) -> tuple[np.ndarray, Any]:
    """Train as a new process does; return the curve without its seconds, and the agent."""
    args = ppo.Args(**{**SIZES, **DEFAULTS, **flags})
    envs.reset(seed=77)  # what the last process did with them is not here
    torch.manual_seed(args.seed)
    agent = ppo.Agent(envs)
    progress = ppo.train(args, envs, agent, path)
    return np.delete(np.array(progress).reshape(-1, 4), 1, axis=1), agent


def assert_same_run(found: tuple[np.ndarray, Any], wanted: tuple[np.ndarray, Any]) -> None:
    np.testing.assert_array_equal(found[0], wanted[0])
    state = found[1].state_dict()
    assert all(torch.equal(state[name], value) for name, value in wanted[1].state_dict().items())


def read_run(path: Path) -> dict[str, Any]:
    return torch.load(path, weights_only=True)


def test_resume__after_every_update_is_the_unbroken_run(ppo, envs, tmp_path):
    path, pending, seconds = tmp_path / "checkpoint.pt", 0, []
    unbroken = start(ppo, envs, None)
    broken = start(ppo, envs, path, max_seconds=0.0)
    for done in range(1, UPDATES):
        assert len(broken[0]) == done, "the run was not broken after one update"
        run = read_run(path)
        seconds.append(run["values"][-1][-1][1])
        sums, ended = run["carry"]
        pending += bool(ended.any() and sums[:, ~ended].any())
        broken = start(ppo, envs, path, max_seconds=0.0, resume=True)
    assert pending > 2, "few checkpoints had restarts that were due beside running episodes"
    assert_same_run(broken, unbroken)
    assert len(broken[0]) == UPDATES
    assert len(np.unique(broken[0][:, 2])) > UPDATES / 2, "the curve is flat"
    assert sorted(set(seconds)) == seconds, "the seconds do not add up"


def test_resume__goes_on_from_the_last_checkpoint_of_several(ppo, envs, tmp_path):
    path = tmp_path / "checkpoint.pt"
    unbroken = start(ppo, envs, path, checkpoint_updates=3)
    assert read_run(path)["values"][-1][-1][0] == UPDATES * BATCH, "none at the end"
    path.unlink()
    saved, replace = [], os.replace

    def break_run(source: Any, target: Any) -> None:
        replace(source, target)
        if target == path:
            saved.append(read_run(path)["values"][-1][-1][0])
        if len(saved) == 2:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", break_run)
        with pytest.raises(KeyboardInterrupt):
            start(ppo, envs, path, checkpoint_updates=3)
    assert saved == [3 * BATCH, 6 * BATCH]
    assert_same_run(start(ppo, envs, path, resume=True), unbroken)


def test_resume__has_the_time_limit_of_its_own_start(ppo, envs, tmp_path):
    path = tmp_path / "checkpoint.pt"
    start(ppo, envs, path, max_seconds=0.0)
    run = read_run(path)
    steps, _, *rest = run["values"][-1].pop()
    run["values"][-1].append((steps, 5e6, *rest))
    torch.save(run, path)
    resumed, _ = start(ppo, envs, path, max_seconds=1e6, resume=True)
    assert len(resumed) == UPDATES
    assert read_run(path)["values"][-1][-1][1] > 5e6


def test_resume__goes_on_beyond_a_return_that_was_reached(ppo, envs, tmp_path):
    path = tmp_path / "checkpoint.pt"
    solved = start(ppo, envs, path, target_return=0.0)
    assert len(solved[0]) < UPDATES
    assert_same_run(start(ppo, envs, path, target_return=0.0, resume=True), solved)
    free = {"target_return": np.inf, "max_seconds": 1e6, "out": "elsewhere", "eval_steps": 7}
    unbroken = start(ppo, envs, None)
    for _ in range(2):  # a finished run trains no more
        assert_same_run(start(ppo, envs, path, resume=True, **free), unbroken)


def test_resume__names_the_flags_that_differ(ppo, envs, tmp_path):
    path = tmp_path / "checkpoint.pt"
    start(ppo, envs, path, total_steps=2 * BATCH)
    with pytest.raises(SystemExit) as error:
        start(ppo, envs, path, resume=True, gamma=0.5)
    assert "--gamma=0.99 --total-steps=30" in str(error.value)
    assert "learning-rate" not in str(error.value)
    for name, value in {"seed": 2, "num_steps": 6, "last_episodes": 3, "arrays": "torch"}.items():
        with pytest.raises(SystemExit, match=f"--{name.replace('_', '-')}="):
            start(ppo, envs, path, resume=True, total_steps=2 * BATCH, **{name: value})


def test_resume__without_a_checkpoint_says_what_to_do(ppo, envs, tmp_path):
    with pytest.raises(SystemExit, match=r"no .*checkpoint\.pt.*omit `--resume`"):
        start(ppo, envs, tmp_path / "checkpoint.pt", resume=True)


@pytest.mark.parametrize("engine", ["envpool", "scripted"])
def test_resume__is_refused_where_the_environments_have_no_state(ppo, engine, tmp_path, capsys):
    if engine == "envpool":
        envs = gym.make_vec("EnvPool/CartPole-v1", 3)
    else:
        envs = scripted_vector_env([[2, 3], [1, 4], [5, 2]])
    path = tmp_path / "checkpoint.pt"
    curve, _ = start(ppo, envs, path)
    assert len(curve) == UPDATES, "the run did not work"
    assert capsys.readouterr().out.count("cannot be resumed") == 1
    assert not path.exists()
    with pytest.raises(SystemExit, match="cannot be saved: omit `--resume`"):
        start(ppo, envs, path, resume=True)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("module", "function", "call"),
    # The environments write a file of their own before, in the same way.
    [(os, "replace", 1), (torch, "save", 1), (os, "fsync", 2), (os, "replace", 2)],
)
def test_checkpoint__that_is_cut_short_leaves_the_one_before(
    ppo, envs, module, function, call, tmp_path
):
    path, original, calls = tmp_path / "checkpoint.pt", getattr(module, function), []
    few = {"total_steps": 3 * BATCH}
    unbroken = start(ppo, envs, None, **few)
    start(ppo, envs, path, max_seconds=0.0, **few)
    whole = path.read_bytes()

    def cut_short(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, function, cut_short)
        with pytest.raises(KeyboardInterrupt):
            start(ppo, envs, path, resume=True, **few)
    assert path.read_bytes() == whole
    assert_same_run(start(ppo, envs, path, resume=True, **few), unbroken)
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_checkpoint__has_the_random_numbers_of_every_gpu_in_use(ppo, envs, tmp_path, monkeypatch):
    gpus = torch.Generator(), torch.Generator()
    monkeypatch.setattr(torch.cuda, "default_generators", gpus)
    start(ppo, envs, tmp_path / "checkpoint.pt", max_seconds=0.0)
    wanted = [torch.rand(3, generator=gpu) for gpu in gpus]
    torch.rand(5, generator=gpus[0])
    start(ppo, envs, tmp_path / "checkpoint.pt", max_seconds=0.0, resume=True)
    found = [torch.rand(3, generator=gpu) for gpu in gpus]
    assert all(map(torch.equal, found, wanted))


def run_killed(command: list[str], checkpoint: Path) -> None:
    """Start a run, and kill it a moment after its first checkpoint."""
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not checkpoint.exists():
        assert run.poll() is None, "the run ended without a checkpoint"
        time.sleep(0.01)
    time.sleep(0.1)
    run.send_signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL, "the run ended before it was killed"


@pytest.mark.slow
def test_ppo__killed_and_resumed_has_the_results_of_an_unbroken_run(tmp_path):
    sizes = ("--total-steps=1200", "--num-envs=3", "--num-steps=10", "--epochs=2", "--eval-steps=9")
    flags = ("--env-id=Brax/fast-v0", '--env-kwargs={"max_episode_steps": 7}', *sizes)
    flags = (*flags, "--arrays=torch", "--checkpoint-updates=1")
    script = str(EXAMPLES / "ppo.py")
    command = [sys.executable, script, *flags, f"--out={tmp_path}/broken"]
    run_killed(command, tmp_path / "broken" / "checkpoint.pt")
    assert not (tmp_path / "broken" / "progress.csv").exists()
    curves, outputs = [], []
    for name, more in (("broken", ["--resume"]), ("unbroken", [])):
        folder = tmp_path / name
        printed = call_script("ppo", *flags, f"--out={folder}", *more, cwd=tmp_path)
        outputs.append(printed.out.replace(str(folder), "").rpartition(",")[0])
        table = read_table(folder / "progress.csv")
        assert (np.diff(table["seconds"]) > 0).all()
        curves.append(table[["env_steps", "episodes", "mean_return"]])
    np.testing.assert_array_equal(*curves)
    assert outputs[0] == outputs[1]
    assert "Greedy policy" in outputs[0]
