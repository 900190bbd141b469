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
from gymnasium.wrappers import vector

from tests.support.example_runs import read_video
from tests.support.player import play

pytest.importorskip("envpool.registration")
cv2 = pytest.importorskip("cv2")
pytest.importorskip("moviepy")

CARTPOLE = "EnvPool/CartPole-v1"

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Overwriting existing videos:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*autoreset mode is same-step:UserWarning"),
]


def make(env_id: str = CARTPOLE, num_envs: int = 2, **options: Any) -> Any:
    options = {"render_mode": "rgb_array", "render_size": (320, 240)} | options
    return gym.make_vec(env_id, num_envs=num_envs, **options)


def record(envs: Any, num_steps: int) -> None:
    envs.action_space.seed(1)
    play(envs, num_steps, seed=1, act=lambda _: envs.action_space.sample())
    envs.close()


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
    record(envs, 20)
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
