"""The examples of SB3, TorchRL and rsl_rl run on a tiny budget, and at their own reach their bars.

In the quick tests they run in this process, in the slow ones as a user runs them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_runs import EXAMPLES, call_script, check_picture, load_script, read_table, run_script

pytest.importorskip("envpool.registration")
pytest.importorskip("pandas")
pytest.importorskip("rich")
pytest.importorskip("tqdm")

MEAN = re.compile(r"(\S+): mean return (\S+?),? ")
SOLVED = re.compile(r"(\S+): mean return (\S+) \+- \S+ over (\d+) episodes, (\d+) s")
IMPROVED = re.compile(r"(\S+): mean return (\S+) before, (\S+) after, (\d+) s")


def mean_of(printed: Any) -> float:
    """Return the mean return in the last line of a script."""
    return float(MEAN.match(printed.lines[-1])[2])


def check_episodes(picture: Path, longest: int, num_steps: int) -> None:
    """Check a picture of returns, and that the episodes in it are those of a training."""
    check_picture(picture)
    table = np.genfromtxt(
        picture.with_suffix("") / "0.monitor.csv", skip_header=1, names=True, delimiter=","
    )
    assert len(table) > 5
    assert 1 <= table["l"].min() <= table["l"].max() <= longest
    assert num_steps - 16 * longest <= table["l"].sum() <= num_steps


def test_sb3_ppo__runs_with_a_progress_bar_and_plays_its_policy(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    sizes = ("--num-envs=4", "--eval-episodes=3", f"--out={tmp_path}")
    printed = call_script("sb3_ppo", "--total-steps=256", *sizes, cwd=tmp_path)
    flag = f"--evaluate={tmp_path}/CartPole-v1_ppo.zip"
    again = call_script("sb3_ppo", flag, *sizes, cwd=tmp_path).lines[-1]
    assert again.rpartition(",")[0] == printed.lines[-1].rpartition(",")[0]
    env_id, mean, episodes, _ = SOLVED.fullmatch(again).groups()
    assert (env_id, episodes) == ("EnvPool/CartPole-v1", "3")
    assert 5 < float(mean) <= 500
    assert "256/256" in printed.out + printed.log
    check_episodes(tmp_path / "CartPole-v1_ppo.png", longest=500, num_steps=256)


def test_sb3_sac__runs_with_a_progress_bar(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    pytest.importorskip("brax")
    task = ("--env-id=Brax/fast-v0", "--episode-steps=5", "--total-steps=816")
    flags = (*task, "--eval-episodes=16", f"--out={tmp_path}")
    printed = call_script("sb3_sac", *flags, cwd=tmp_path)
    assert (tmp_path / "fast-v0_sac.zip").exists()
    env_id, before, after, _ = IMPROVED.fullmatch(printed.lines[-1]).groups()
    assert env_id == "Brax/fast-v0"
    assert abs(float(before) - float(after)) < 1, "its rewards are small"
    assert "816/816" in printed.out + printed.log
    check_episodes(tmp_path / "fast-v0_sac.png", longest=5, num_steps=816)


def test_sb3_benchmark__prints_both_bars(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    printed = call_script("benchmarks/sb3_step", "--rounds=1", cwd=tmp_path)
    assert {*re.findall(r"\| <= (\S+) \|", printed.out)} == {"2.00", "0.33"}


@pytest.mark.slow
def test_sb3_ppo__solves_cart_pole(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    printed = run_script("sb3_ppo", f"--out={tmp_path}")
    env_id, mean, episodes, _ = SOLVED.fullmatch(printed.lines[-1]).groups()
    assert (env_id, episodes) == ("EnvPool/CartPole-v1", "20")
    assert float(mean) >= 475


@pytest.mark.slow
def test_sb3_sac__improves_on_reacher(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    pytest.importorskip("brax")
    printed = run_script("sb3_sac", f"--out={tmp_path}")
    env_id, before, after, _ = IMPROVED.fullmatch(printed.lines[-1]).groups()
    assert env_id == "Brax/reacher-v0"
    assert float(after) > 0.7 * float(before), "returns are negative"


@pytest.mark.slow
def test_sb3_atari__trains_saves_and_plays(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    play = ("--eval-episodes=1", "--out=.")
    sizes = ("--num-envs=2", "--num-steps=16", "--total-steps=32")
    for limit in (10, 40):
        flags = (*sizes, *play, f"--max-episode-steps={limit}")
        printed = run_script("sb3_atari", *flags, cwd=tmp_path)
        assert printed.lines[-1].endswith(" over 1 episodes")
        has_episodes = limit < 16
        assert (tmp_path / "Pong-v5_ppo.png").exists() == has_episodes
        assert ("No episode ended" in printed.out) != has_episodes
    flags = (*play, "--max-episode-steps=40", "--evaluate=Pong-v5_ppo.zip")
    assert "over 1 episodes" in call_script("sb3_atari", *flags, cwd=tmp_path).lines[-1]


def test_record_video__writes_what_a_policy_does(tmp_path: Path) -> None:
    for library in ("stable_baselines3", "moviepy", "cv2", "PIL"):
        pytest.importorskip(library)
    import cv2
    from PIL import Image

    task = ("--num-envs=4", '--env-kwargs={"max_episode_steps": 9}')
    options = (*task, "--steps=12", "--size", "320", "240", f"--out={tmp_path}")
    printed = call_script("record_video", "--train-steps=1024", *options, cwd=tmp_path)
    line = printed.lines[-1]
    assert re.match(r"Return \d\.0 in \d steps; wrote ", line)
    assert "1,024/1,024" in printed.out + printed.log
    assert (tmp_path / "CartPole-v1.png").exists()
    policy = tmp_path / "CartPole-v1.zip"
    gif, film = (policy.with_suffix(suffix) for suffix in (".gif", ".mp4"))
    with Image.open(gif) as frames:
        assert frames.size == (320, 240)
        assert 3 <= frames.n_frames <= 12, "equal frames are one"
    assert cv2.VideoCapture(str(film)).read()[1].shape == (240, 320, 3)
    before = film.read_bytes()
    again = call_script("record_video", f"--policy={policy}", *options, cwd=tmp_path)
    assert again.lines[-1] == line
    assert "1,024" not in again.out + again.log, "it was trained again"
    assert film.read_bytes() == before


@pytest.mark.parametrize("env_id", ["EnvPool/Pendulum-v1", "EnvPool/HalfCheetah-v5"])
def test_torchrl_ppo__trains_and_writes_its_curve(env_id: str, tmp_path: Path) -> None:
    pytest.importorskip("torchrl")
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
    pytest.importorskip("torchrl")
    pytest.importorskip("matplotlib")
    import torch
    from tensordict import TensorDict

    from gymbridge.trainers.torchrl import make_torchrl

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
    pytest.importorskip("rsl_rl.env")
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


@pytest.mark.slow
def test_torchrl_ppo__solves_the_pendulum(tmp_path: Path) -> None:
    pytest.importorskip("torchrl")
    pytest.importorskip("brax.envs")
    assert mean_of(run_script("torchrl_ppo", "--out", tmp_path)) > 800


@pytest.mark.slow
def test_rsl_rl_ppo__swings_the_pendulum_up(tmp_path: Path) -> None:
    pytest.importorskip("rsl_rl.env")
    assert mean_of(run_script("rsl_rl_ppo", "--out", tmp_path)) > -450
    table = read_table(tmp_path / "progress.csv")
    assert table["env_steps"][-1] == 150 * 64 * 64
    assert (np.diff(table["env_steps"]) > 0).all()
    assert (np.diff(table["seconds"]) > 0).all()
    returns = table["mean_return"]
    assert returns[0] < -1000 < -450 < returns[-1]


@pytest.mark.slow
def test_benchmark__prints_its_rows(tmp_path: Path) -> None:
    for library in ("brax.envs", "torchrl", "rsl_rl.env"):
        pytest.importorskip(library)
    # TorchRL's wrapper compiles again every 20 steps.
    flags = ("--rounds=1", "--steps=25")
    printed = run_script("benchmarks/trainers_step", *flags, cwd=tmp_path)
    assert re.findall(r"\| <= (\S+) \|", printed.out) == ["1.50", "0.05", "1.05", "1.10"]
    assert (tmp_path / "runs" / "trainers_step.json").exists()
