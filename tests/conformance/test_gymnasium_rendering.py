"""Gymnasium's wrappers that show frames work on batches of ours; videos are read again.

The assertions are those of Gymnasium 1.4's `tests/wrappers/vector/test_record_video.py` and
`test_human_rendering.py`, in our words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector

from tests.support.example_runs import read_video

pytest.importorskip("envpool.registration")
cv2 = pytest.importorskip("cv2")
pytest.importorskip("moviepy")

CARTPOLE = "EnvPool/CartPole-v1"
PENDULUM = "Brax/inverted_pendulum-v0"

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Overwriting existing videos:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*autoreset mode is same-step:UserWarning"),
]


def make(env_id: str = CARTPOLE, num_envs: int = 2, **options: Any) -> Any:
    options = {"render_mode": "rgb_array", "render_size": (320, 240)} | options
    return gym.make_vec(env_id, num_envs=num_envs, **options)


def play(envs: Any, num_steps: int) -> None:
    envs.reset(seed=1)
    envs.action_space.seed(1)
    for _ in range(num_steps):
        *_, terminated, truncated, _ = envs.step(envs.action_space.sample())
        ended = terminated | truncated
        if envs.metadata["autoreset_mode"] == AutoresetMode.DISABLED and ended.any():
            envs.reset(options={"reset_mask": ended})
    envs.close()


def check_video(path: Path, size: tuple[int, int], count: int) -> None:
    frames = read_video(path)
    assert frames.shape[1:] == (*size, 3)
    assert count <= len(frames) <= count + 2  # MoviePy shows the last one for longer
    moved = np.abs(frames[-1].astype(int) - frames[0]).max(axis=-1) > 60
    assert moved.sum() > 30, "nothing moves"


def test_record_video__writes_frames_that_differ(tmp_path: Path) -> None:
    envs = vector.RecordVideo(
        make(), str(tmp_path), episode_trigger=lambda e: e == 0, video_length=20
    )
    play(envs, 40)
    (path,) = tmp_path.glob("*.mp4")
    assert path.name == "rl-video-episode-0.mp4"
    check_video(path, (240, 640), 20)  # two frames of 320 x 240, side by side


@pytest.mark.needs_opengl
def test_record_video__writes_physics(tmp_path: Path) -> None:
    pytest.importorskip("brax.envs")
    envs = make(PENDULUM, 1, backend="spring")
    play(vector.RecordVideo(envs, str(tmp_path), video_length=25), 30)
    path = sorted(tmp_path.glob("*.mp4"))[0]
    check_video(path, (240, 320), 25)
    assert cv2.VideoCapture(str(path)).get(cv2.CAP_PROP_FPS) == 50


def test_record_video__takes_both_triggers_a_prefix_and_a_shape(mode: str, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er"
    envs = vector.RecordVideo(
        make(num_envs=4, autoreset_mode=mode, max_episode_steps=4, render_size=(64, 48)),
        str(folder),
        episode_trigger=lambda episode: episode == 2,
        step_trigger=lambda step: step == 1,
        video_length=3,
        name_prefix="v",
        video_aspect_ratio=(1, 1),
    )
    play(envs, 20)
    assert not envs.recording
    assert sorted(path.name for path in folder.glob("*.mp4")) == ["v-episode-2.mp4", "v-step-1.mp4"]
    frames = read_video(folder / "v-episode-2.mp4")
    assert frames.shape[1:] == (96, 128, 3)  # two by two of 64 x 48


def test_sync_vector_env__draws_views_of_one_environment() -> None:
    sync = gym.make_vec(CARTPOLE, num_envs=2, vectorization_mode="sync", render_mode="rgb_array")
    batch = make(render_size=None)
    sync.reset(seed=4)
    batch.reset(seed=4)
    for frame, expected in zip(batch.render(), sync.render(), strict=True):
        np.testing.assert_array_equal(frame, expected)


@pytest.mark.parametrize(("num_envs", "size"), [(1, None), (3, (600, 500))])
def test_human_rendering__shows_a_window(
    num_envs: int, size: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    envs = vector.HumanRendering(make(num_envs=num_envs), screen_size=size)
    assert envs.render_mode == "human"
    assert "human" not in envs.env.metadata["render_modes"]
    envs.reset(seed=0)
    envs.step(envs.action_space.sample())
    assert pygame.display.get_surface().get_size() == (size or (320, 240))
    with pytest.raises((ValueError, AssertionError)):
        vector.HumanRendering(envs)
    envs.close()


def test_view__for_people_opens_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    with pytest.warns(UserWarning, match="HumanRendering"):
        env = gym.make(CARTPOLE, render_mode="human")
    assert env.render_mode == "human"
    env.reset(seed=0)
    env.step(0)
    env.close()
