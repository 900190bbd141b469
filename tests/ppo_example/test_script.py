"""`examples/ppo.py` runs on a tiny budget and solves two tasks; its curve and bar are right."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from tqdm import tqdm

from gymbridge.testing import scripted_vector_env
from tests.support.example_runs import call_script, check_picture, read_table, run_script
from tests.support.ppo_episodes import LENGTHS, NUM_STEPS, TRUNCATES

TINY = ("--total-steps=256", "--num-envs=4", "--num-steps=8", "--epochs=1", "--eval-steps=2")
LAST_LINE = re.compile(r"(\S+): mean return (\S+) after (\d+) episodes, (\d+) s")


def check_results(folder: Path, env_steps: int) -> None:
    check_picture(folder / "learning_curve.png")
    table = read_table(folder / "progress.csv")
    assert table.dtype.names == ("env_steps", "seconds", "episodes", "mean_return")
    assert table["env_steps"][-1] == env_steps
    assert (np.diff(table["seconds"]) > 0).all()


def test_args__flags_go_before_the_defaults_of_a_script(ppo, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["ppo.py", "--env-id=EnvPool/CartPole-v1", "--num-envs=3"])
    args = ppo.parse_args(ppo.Args(env_id="none", gamma=0.5))
    assert (args.env_id, args.num_envs, args.gamma) == ("EnvPool/CartPole-v1", 3, 0.5)
    assert ppo.parse_args(ppo.Args()).gamma == 0.99
    assert not args.resume
    monkeypatch.setattr(sys, "argv", ["ppo.py", "--resume"])
    assert ppo.parse_args(ppo.Args()).resume


@pytest.fixture
def bars(ppo, monkeypatch):
    """The progress bars that the script makes, which keep their last lines."""
    made = []

    class Bar(tqdm):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

        def close(self):
            self.last_line = str(self)
            super().close()

    monkeypatch.setattr(sys.modules["run_folder"], "tqdm", Bar)
    return made


def train(ppo, envs, last_episodes=3, **limits):
    """Train on scripted episodes and return the progress."""
    sizes = {"num_envs": 3, "num_steps": NUM_STEPS, "minibatches": 1}
    args = ppo.Args(**sizes, last_episodes=last_episodes, **limits)
    torch.manual_seed(0)
    return ppo.train(args, envs, ppo.Agent(envs))


def test_train__reports_the_true_returns(ppo):
    """Nothing is discounted, scaled or left out; "solved" waits for a full window."""
    recorded = RecordEpisodeStatistics(scripted_vector_env(LENGTHS, TRUNCATES), 50)
    progress = train(ppo, recorded, last_episodes=12, total_steps=10_000, target_return=0.0)
    returns = list(recorded.return_queue)
    assert len(returns) >= 12
    count, mean = progress[-1][2:]
    assert count == recorded.episode_count
    assert mean == pytest.approx(np.mean(returns[-12:]), rel=1e-5)
    assert progress[-2][2] < 12, "it was solved, and went on"


def test_train__is_alike_on_numpy_and_on_tensors(ppo):
    curves = []
    for arrays in ("numpy", "torch"):
        envs = scripted_vector_env(LENGTHS, TRUNCATES, arrays=arrays)
        progress = np.array(train(ppo, envs, total_steps=90))
        curves.append(np.delete(progress, 1, axis=1))  # the seconds
    np.testing.assert_array_equal(*curves)
    assert curves[0][-1, 1] > 10


def test_bar__begins_after_the_first_rollout_which_compiles(ppo, bars, monkeypatch):
    counts, rollouts = [], ppo.rollouts

    def counted_rollouts(*args):
        for rollout in rollouts(*args):
            counts.append(len(bars))
            yield rollout

    monkeypatch.setattr(ppo, "rollouts", counted_rollouts)
    progress = train(ppo, scripted_vector_env(LENGTHS, TRUNCATES), total_steps=40)
    assert counts == [0, 1, 1]
    assert [row[0] for row in progress] == [15, 30, 45]
    assert (bars[0].n, bars[0].total) == (45, 40)
    assert "solved" not in bars[0].last_line


def test_bar__is_full_where_the_task_is_solved(ppo, bars):
    envs = scripted_vector_env(LENGTHS, TRUNCATES)
    progress = train(ppo, envs, total_steps=10_000, target_return=0.0)
    assert bars[0].n == bars[0].total == progress[-1][0] < 10_000
    assert bars[0].last_line.startswith("100%")
    assert bars[0].last_line.endswith(f"mean return {progress[-1][3]:.2f}, solved]")


@pytest.mark.slow
def test_ppo__takes_engine_keywords_and_another_folder(tmp_path):
    keywords = '{"backend": "spring", "max_episode_steps": 3}'
    out = tmp_path / "mine"
    flags = ("--env-id=Brax/fast-v0", f"--env-kwargs={keywords}", f"--out={out}", *TINY)
    printed = run_script("ppo", *flags, cwd=tmp_path)
    place = "Fast, 4 environments on cpu. This can take a minute."
    wanted = f"Compiling reset of {place}\nCompiling step of {place}\n"
    assert printed.log.startswith(wanted)
    assert LAST_LINE.fullmatch(printed.lines[-1])[3] == "64", "each episode takes 4 rows"
    check_results(out, env_steps=256)


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", ["MiniGrid-Empty-5x5-v0", "FrozenLake-v1", "Pendulum-v1", "Pong-v5", "CarRacing-v3"]
)
def test_ppo__takes_any_kind_of_space_and_writes_its_results(tmp_path, task):
    printed = call_script("ppo", f"--env-id=EnvPool/{task}", *TINY, cwd=tmp_path)
    assert LAST_LINE.fullmatch(printed.lines[-1])[1] == f"EnvPool/{task}"
    check_results(tmp_path / "runs" / "EnvPool" / task, env_steps=256)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "env_id", "bar", "arrays"),
    [
        ("brax.envs", "Brax/inverted_pendulum-v0", 900, "torch"),
        ("envpool.registration", "EnvPool/CartPole-v1", 475, "numpy"),
    ],
)
def test_ppo__solves_the_task(tmp_path, engine, env_id, bar, arrays):
    flags = (f"--env-id={env_id}", f"--arrays={arrays}", f"--target-return={bar}")
    printed = run_script("ppo", *flags, cwd=tmp_path)
    name, mean_return, *_ = LAST_LINE.fullmatch(printed.lines[-1]).groups()
    assert name == env_id
    assert float(mean_return) >= bar
