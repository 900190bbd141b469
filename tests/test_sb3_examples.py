"""The examples of SB3 run on a tiny budget, and learn with fewer steps than by default."""

from __future__ import annotations

import gc
import re
import runpy
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import gymnasium as gym
import numpy as np
import pytest
from PIL import Image
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from tests.support.example_runs import call_script, check_picture, run_script

SOLVED = re.compile(r"(\S+): mean return (\S+) \+- \S+ over (\d+) episodes, (\d+) s")
IMPROVED = re.compile(r"(\S+): mean return (\S+) before, (\S+) after, (\d+) s")


def check_episodes(picture: Path, longest: int, num_steps: int) -> None:
    """Check a picture of returns, and that the episodes in it are those of a training."""
    gc.collect()  # pytest fails where a file of the script was not closed
    check_picture(picture)
    table = np.genfromtxt(
        picture.with_suffix("") / "0.monitor.csv", skip_header=1, names=True, delimiter=","
    )
    assert len(table) > 5
    assert 1 <= table["l"].min() <= table["l"].max() <= longest
    assert num_steps - 16 * longest <= table["l"].sum() <= num_steps


def test_sb3_ppo__runs_with_a_progress_bar_and_plays_its_policy(tmp_path: Path) -> None:
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
    task = ("--env-id=Brax/fast-v0", "--episode-steps=5", "--total-steps=816")
    flags = (*task, "--eval-episodes=16", f"--out={tmp_path}")
    printed = call_script("sb3_sac", *flags, cwd=tmp_path)
    assert (tmp_path / "fast-v0_sac.zip").exists()
    env_id, before, after, _ = IMPROVED.fullmatch(printed.lines[-1]).groups()
    assert env_id == "Brax/fast-v0"
    assert abs(float(before) - float(after)) < 1, "its rewards are small"
    assert "816/816" in printed.out + printed.log
    check_episodes(tmp_path / "fast-v0_sac.png", longest=5, num_steps=816)


@pytest.mark.parametrize(("name", "algorithm"), [("sb3_ppo", PPO), ("sb3_sac", SAC)])
def test_sb3__names_a_policy_of_another_task_in_one_line(
    name: str, algorithm: Any, tmp_path: Path
) -> None:
    path = tmp_path / "policy.zip"
    algorithm("MlpPolicy", "MountainCarContinuous-v0", device="cpu").save(path)
    flags = ("--env-id=EnvPool/Pendulum-v1", f"--evaluate={path}")
    printed = call_script(name, *flags, cwd=tmp_path, code=1)
    assert "the policy is of another task: its observation_space is Box(" in printed.log
    assert printed.log.count("\n") == 1


@pytest.mark.parametrize(("name", "algorithm"), [("sb3_ppo", SAC), ("sb3_sac", PPO)])
def test_sb3__names_a_model_of_another_algorithm_in_one_line(
    name: str, algorithm: Any, tmp_path: Path
) -> None:
    path = tmp_path / "policy.zip"
    algorithm("MlpPolicy", "Pendulum-v1", device="cpu").save(path)
    printed = call_script(name, f"--evaluate={path}", cwd=tmp_path, code=1)
    wanted = name.removeprefix("sb3_").upper()
    assert f"{path} cannot be loaded as a model of {wanted}: " in printed.log
    assert printed.log.count("\n") == 1


def test_sb3_benchmark__prints_both_bars(tmp_path: Path) -> None:
    printed = call_script("benchmarks/sb3_step", "--rounds=1", cwd=tmp_path)
    assert {*re.findall(r"\| <= (\S+) \|", printed.out)} == {"2.00", "0.33"}


@pytest.mark.slow
def test_sb3_ppo__solves_cart_pole(tmp_path: Path) -> None:
    printed = run_script("sb3_ppo", "--total-steps=60000", f"--out={tmp_path}")
    env_id, mean, episodes, _ = SOLVED.fullmatch(printed.lines[-1]).groups()
    assert (env_id, episodes) == ("EnvPool/CartPole-v1", "20")
    assert float(mean) >= 475


@pytest.mark.slow
def test_sb3_sac__learns_to_balance_the_pendulum(tmp_path: Path) -> None:
    task = ("--env-id=Brax/inverted_pendulum-v0", "--total-steps=4000")
    printed = run_script("sb3_sac", *task, f"--out={tmp_path}")
    env_id, before, after, _ = IMPROVED.fullmatch(printed.lines[-1]).groups()
    assert env_id == "Brax/inverted_pendulum-v0"
    assert float(before) < 15 < 40 < float(after) <= 50, "each of at most 50 steps earns 1"


@pytest.mark.slow
def test_sb3_atari__trains_saves_and_plays(tmp_path: Path) -> None:
    play = ("--eval-episodes=1", "--out=.")
    sizes = ("--num-envs=2", "--num-steps=16", "--total-steps=32")
    for limit in (10, 40):
        flags = (*sizes, *play, f"--max-episode-steps={limit}")
        printed = call_script("sb3_atari", *flags, cwd=tmp_path)
        assert printed.lines[-1].endswith(" over 1 games")
        has_episodes = limit < 16
        assert (tmp_path / "Pong-v5_ppo.png").exists() == has_episodes
        assert ("No episode ended" in printed.out) != has_episodes
    flags = (*play, "--max-episode-steps=40", "--evaluate=Pong-v5_ppo.zip")
    assert "over 1 games" in call_script("sb3_atari", *flags, cwd=tmp_path).lines[-1]


def test_repeated_benchmark__has_the_median_process(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(__file__).parents[1] / "examples" / "benchmarks"
    monkeypatch.syspath_prepend(folder)
    merge = runpy.run_path(str(folder / "repeat.py"))["merge"]
    runs = [
        {"case": "a", "microseconds": us, "ratio": {"value": ratio}, "bar": 1.0, "note": f"{us} us"}
        for us, ratio in ((3.0, 0.9), (1.0, 0.5), (2.0, 0.7))
    ]
    found = merge(runs)
    assert (found.microseconds, tuple(found.ratio)) == (2.0, (0.7, 0.5, 0.9))
    assert found.note == "3 processes: 0.50, 0.70, 0.90; 2.0 us"


def test_record_video__writes_what_a_policy_does(tmp_path: Path) -> None:
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


def test_record_video__plays_what_any_algorithm_wrote(tmp_path: Path) -> None:
    path = tmp_path / "policy.zip"
    SAC("MlpPolicy", "Pendulum-v1", seed=0, device="cpu").save(path)
    flags = (f"--policy={path}", "--steps=4", f"--out={tmp_path}")
    printed = call_script("record_video", "--env-id=EnvPool/Pendulum-v1", *flags, cwd=tmp_path)
    assert re.match(r"Return -\d+\.\d in 3 steps; wrote ", printed.lines[-1])
    assert (tmp_path / "Pendulum-v1.png").exists()
    printed = call_script("record_video", *flags, cwd=tmp_path, code=1)
    assert f"`--policy`: {path} cannot act on observations in Box" in printed.log
    assert printed.log.count("\n") == 1


def test_record_video__takes_the_statistics_of_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, statistics = tmp_path / "policy.zip", tmp_path / "statistics.pkl"
    SAC("MlpPolicy", "Pendulum-v1", seed=0, device="cpu").save(path)
    normalized = VecNormalize(DummyVecEnv([partial(gym.make, "Pendulum-v1")]))
    normalized.obs_rms.mean[:] = 5.0
    normalized.save(str(statistics))
    task = ("--env-id=EnvPool/Pendulum-v1", "--steps=20", "--size", 60, 60)
    flags = (*task, f"--policy={path}", f"--out={tmp_path}")
    without = call_script("record_video", *flags, cwd=tmp_path)
    assert f"{path} seems to have been trained in VecNormalize: {statistics} has" in caplog.text
    caplog.clear()
    with_them = call_script("record_video", *flags, f"--vecnormalize={statistics}", cwd=tmp_path)
    assert "VecNormalize" not in caplog.text
    assert with_them.lines[-1] != without.lines[-1]
    statistics.write_bytes(b"no pickle")
    broken = call_script(
        "record_video", *flags, f"--vecnormalize={statistics}", cwd=tmp_path, code=1
    )
    assert broken.log.startswith(f"{statistics} cannot be read as statistics of a VecNormalize: ")
    assert broken.log.count("\n") == 1
    flag = f"--vecnormalize={statistics}"
    untrained = call_script("record_video", *task, flag, cwd=tmp_path, code=1)
    assert untrained.log == (
        "--vecnormalize needs a --policy: the one that is trained here needs none.\n"
    )
