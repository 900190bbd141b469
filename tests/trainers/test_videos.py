"""Trainers' own ways to show what they learn, over batches of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.vec_env import VecVideoRecorder
from torchrl.envs import TransformedEnv, check_env_specs
from torchrl.record import PixelRenderTransform

from gymbridge.errors import ArgumentError, ArgumentTypeError, KeywordError
from gymbridge.trainers.cleanrl import make_cleanrl
from gymbridge.trainers.sb3 import make_vec_env
from gymbridge.trainers.torchrl import make_torchrl
from tests.support.example_runs import read_video

CARTPOLE = "EnvPool/CartPole-v1"


@pytest.mark.filterwarnings("ignore:.*MoviePy:UserWarning")
def test_sb3__records_videos_of_its_batch(tmp_path: Path) -> None:
    envs = make_vec_env(CARTPOLE, 4, seed=0)
    assert envs.render_mode == "rgb_array"
    recorded = VecVideoRecorder(
        envs, str(tmp_path), record_video_trigger=lambda step: step == 0, video_length=12
    )
    recorded.reset()
    for _ in range(20):
        recorded.step(np.zeros(4, np.int64))
    assert recorded.render().shape == (800, 1200, 3)  # four frames as tiles
    recorded.close()
    assert recorded.frames_per_sec == envs.metadata["render_fps"]
    (path,) = tmp_path.glob("*.mp4")
    assert len(read_video(path)) >= 12


def test_sb3__takes_a_task_that_nobody_draws() -> None:
    envs = make_vec_env("EnvPool/FrozenLake-v1", 2)
    assert envs.render_mode is None
    envs = make_vec_env(CARTPOLE, 2, env_kwargs={"render_mode": None})
    assert envs.render_mode is None


@pytest.mark.filterwarnings("ignore:.*autoreset mode is same-step:UserWarning")
def test_cleanrl__captures_video_of_the_first_environment(tmp_path: Path) -> None:
    options: Any = {"num_envs": 3, "max_episode_steps": 6}
    envs: Any = make_cleanrl(CARTPOLE, **options, capture_video=f"{tmp_path}/videos")
    plain: Any = make_cleanrl(CARTPOLE, **options, capture_video=False)
    assert "RecordVideo" not in str(plain)
    obs, _ = envs.reset(seed=0)
    np.testing.assert_array_equal(obs, plain.reset(seed=0)[0])
    for _ in range(9):
        found, expected = envs.step(np.zeros(3, np.int64)), plain.step(np.zeros(3, np.int64))
        for part, other in zip(found[:4], expected[:4], strict=True):
            np.testing.assert_array_equal(part, other)
    envs.close()
    first = tmp_path / "videos" / "rl-video-episode-0.mp4"
    frames = read_video(first)
    assert len(frames) == 6
    frame = frames[0]
    assert frame.shape == (400, 600, 3)


def test_cleanrl__needs_a_folder_and_a_task_that_is_drawn(tmp_path: Path) -> None:
    for given in (True, 3, None):
        with pytest.raises(ArgumentTypeError, match="`capture_video` must be a folder or False"):
            make_cleanrl(CARTPOLE, 2, capture_video=given)
    with pytest.raises(KeywordError, match="does not draw these tasks"):
        make_cleanrl("EnvPool/FrozenLake-v1", 2, capture_video=str(tmp_path))


def test_torchrl__has_pixels_beside_the_observation() -> None:
    options = {"render_size": (60, 40), "max_episode_steps": 3}
    env: Any = make_torchrl("EnvPool/Pong-v5", 2, from_pixels=True, **options)
    check_env_specs(env)
    env.set_seed(0)
    rollout = env.rollout(6, break_when_any_done=False)
    assert rollout["pixels"].shape == (2, 6, 40, 60, 3)
    assert rollout["next", "pixels"].dtype == rollout["pixels"].dtype
    assert rollout["pixels"].numpy().dtype == np.uint8
    batch: Any = gym.make_vec(
        "EnvPool/Pong-v5", num_envs=2, autoreset_mode="Disabled", render_mode="rgb_array", **options
    )
    batch.reset(seed=0)
    for step in range(3):
        drawn = np.stack(batch.render())
        np.testing.assert_array_equal(rollout["pixels"][:, step].numpy(), drawn)
        batch.step(rollout["action"][:, step].numpy().argmax(-1))
        last = np.stack(batch.render())
        np.testing.assert_array_equal(rollout["next", "pixels"][:, step].numpy(), last)


def test_torchrl__draws_through_its_transform_and_by_hand() -> None:
    env: Any = make_torchrl("EnvPool/Pong-v5", 2, render_mode="rgb_array")
    assert env.render().shape == (2, 210, 160, 3)
    with pytest.raises(ArgumentError, match="`mode` must be 'rgb_array', got 'human'"):
        env.render(mode="human")
    seen = TransformedEnv(
        env, PixelRenderTransform(out_keys=["seen"], mode="rgb_array", preproc=lambda x: x.clone())
    )
    assert seen.rollout(2)["seen"].shape == (2, 2, 210, 160, 3)
    plain: Any = make_torchrl(CARTPOLE, 2)
    with pytest.raises(ArgumentError, match="built with `render_mode='rgb_array'`"):
        plain.render()
