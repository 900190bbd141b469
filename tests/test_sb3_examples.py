"""The SB3 examples run on a tiny budget, and at their own they reach their bars."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
pytest.importorskip("pandas")
pytest.importorskip("rich")
pytest.importorskip("tqdm")

EXAMPLES = Path(__file__).parents[1] / "examples"
SOLVED = re.compile(r"(\S+): mean return (\S+) \+- \S+ over (\d+) episodes, (\d+) s")
IMPROVED = re.compile(r"(\S+): mean return (\S+) before, (\S+) after, (\d+) s")


def run_script(name: str, *arguments: str) -> tuple[str, str]:
    """Return the last line that a script prints, and all that it prints."""
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1], done.stdout + done.stderr


def check_episodes(picture: Path, longest: int, num_steps: int) -> None:
    """Check a picture of returns, and that the episodes in it are those of a training."""
    assert picture.read_bytes().startswith(b"\x89PNG")
    table = np.genfromtxt(
        picture.with_suffix("") / "0.monitor.csv", skip_header=1, names=True, delimiter=","
    )
    assert len(table) > 5
    assert 1 <= table["l"].min() <= table["l"].max() <= longest
    assert num_steps - 16 * longest <= table["l"].sum() <= num_steps


def test_sb3_ppo__runs_with_a_progress_bar_and_plays_its_policy(tmp_path: Path) -> None:
    pytest.importorskip("envpool")
    sizes = ("--num-envs=4", "--eval-episodes=3", f"--out={tmp_path}")
    line, log = run_script("sb3_ppo.py", "--total-steps=256", *sizes)
    again, _ = run_script("sb3_ppo.py", f"--evaluate={tmp_path}/CartPole-v1_ppo.zip", *sizes)
    assert again.rpartition(",")[0] == line.rpartition(",")[0]
    env_id, mean, episodes, _ = SOLVED.fullmatch(line).groups()
    assert (env_id, episodes) == ("EnvPool/CartPole-v1", "3")
    assert 5 < float(mean) <= 500
    assert "256/256" in log
    check_episodes(tmp_path / "CartPole-v1_ppo.png", longest=500, num_steps=256)


def test_sb3_sac__runs_with_a_progress_bar(tmp_path: Path) -> None:
    pytest.importorskip("brax")
    line, log = run_script(
        "sb3_sac.py",
        "--env-id=Brax/fast-v0",
        "--episode-steps=5",
        "--total-steps=1632",
        "--eval-episodes=16",
        f"--out={tmp_path}",
    )
    assert (tmp_path / "fast-v0_sac.zip").exists()
    env_id, before, after, _ = IMPROVED.fullmatch(line).groups()
    assert env_id == "Brax/fast-v0"
    assert abs(float(before) - float(after)) < 1, "its rewards are small"
    assert "1,632/1,632" in log
    check_episodes(tmp_path / "fast-v0_sac.png", longest=5, num_steps=1632)


def test_sb3_benchmark__prints_both_bars() -> None:
    pytest.importorskip("envpool")
    _, log = run_script("benchmarks/sb3_step.py", "--rounds=1")
    assert "| <= 2.00 |" in log
    assert "| <= 0.33 |" in log


@pytest.mark.slow
def test_sb3_ppo__solves_cart_pole(tmp_path: Path) -> None:
    pytest.importorskip("envpool")
    line, _ = run_script("sb3_ppo.py", f"--out={tmp_path}")
    env_id, mean, episodes, _ = SOLVED.fullmatch(line).groups()
    assert (env_id, episodes) == ("EnvPool/CartPole-v1", "20")
    assert float(mean) >= 475


@pytest.mark.slow
def test_sb3_sac__improves_on_reacher(tmp_path: Path) -> None:
    pytest.importorskip("brax")
    line, _ = run_script("sb3_sac.py", f"--out={tmp_path}")
    env_id, before, after, _ = IMPROVED.fullmatch(line).groups()
    assert env_id == "Brax/reacher-v0"
    assert float(after) > 0.7 * float(before), "returns are negative"


def test_record_video__writes_what_a_policy_does(tmp_path: Path) -> None:
    for library in ("envpool.registration", "moviepy", "cv2", "PIL"):
        pytest.importorskip(library)
    import cv2
    from PIL import Image

    task = ("--num-envs=4", '--env-kwargs={"max_episode_steps": 9}')
    options = (*task, "--steps=12", "--size", "320", "240", f"--out={tmp_path}")
    line, log = run_script("record_video.py", "--train-steps=1024", *options)
    assert re.match(r"Return \d\.0 in \d steps; wrote ", line)
    assert "1,024/1,024" in log
    assert (tmp_path / "CartPole-v1.png").exists()
    policy = tmp_path / "CartPole-v1.zip"
    gif, film = (policy.with_suffix(suffix) for suffix in (".gif", ".mp4"))
    with Image.open(gif) as frames:
        assert frames.size == (320, 240)
        assert 3 <= frames.n_frames <= 12, "equal frames are one"
    video = cv2.VideoCapture(str(film))
    assert video.read()[1].shape == (240, 320, 3)
    before = film.read_bytes()
    again, log = run_script("record_video.py", f"--policy={policy}", *options)
    assert again == line
    assert "1,024" not in log, "it was trained again"
    assert film.read_bytes() == before
