"""Frames of EnvPool's environments, and where the process would end without OpenGL."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.player import calls
from tests.support.python_runs import run_python

pytest.importorskip("envpool.registration")

import envpool

from gymbridge import EnvPoolVectorEnv
from gymbridge.core import opengl
from gymbridge.envpool.rendering import check_pixels
from gymbridge.envpool.tasks import UNDRAWN_FAMILIES, load_tasks
from gymbridge.errors import (
    ArgumentError,
    ArgumentTypeError,
    KeywordError,
    NotInstalledError,
    SimulationError,
)

SIZED = ("Pong-v5", (96, 64))
DRAWN = ["Pong-v5", "CartPole-v1", "LunarLander-v3", "MiniGrid-Empty-5x5-v0", "Highway-v0"]


def make(task_id: str = "CartPole-v1", **options: Any) -> Any:
    return EnvPoolVectorEnv(task_id, **{"num_envs": 2, "render_mode": "rgb_array"} | options)


def own_frames(task_id: str, num_steps: int, **view: Any) -> np.ndarray:
    """Return what EnvPool itself draws of two environments with seed 5 after some steps of 0."""
    pool = envpool.make_gymnasium(task_id, num_envs=2, seed=[5, 6], render_mode="rgb_array", **view)
    pool.reset()
    for _ in range(num_steps):
        pool.step(np.zeros(2, np.int32))
    frames: Any = pool.render(env_ids=[0, 1])
    return frames


@pytest.mark.filterwarnings("ignore:.*Box (low|high)'s precision:UserWarning")
@pytest.mark.parametrize(("task_id", "size"), [*((task_id, None) for task_id in DRAWN), SIZED])
def test_render__is_what_envpool_draws(task_id: str, size: tuple[int, int] | None) -> None:
    envs = make(task_id, render_size=size)
    envs.reset(seed=5)
    for _ in range(3):
        envs.step(np.zeros(2, envs.single_action_space.dtype))
    frames, view = envs.render(), {}
    if size is not None:
        view = dict(zip(("render_width", "render_height"), size, strict=True))
        assert frames[0].shape == (size[1], size[0], 3)
    np.testing.assert_array_equal(np.stack(frames), own_frames(task_id, 3, **view))
    assert not np.shares_memory(frames[0], envs.render()[0])


def test_render__shows_the_state_that_the_mode_leaves(mode: str) -> None:
    """A pendulum is where its observation says: the angle decides, and a reset turns it."""
    envs = make("Pendulum-v1", num_envs=1, autoreset_mode=mode, max_episode_steps=3)
    shown = {}
    for call in calls(envs, 7, seed=1, act=lambda _: np.zeros((1, 1), np.float32)):
        shown[call.found[0][0, :2].tobytes()] = envs.render()[0]
    again = make("Pendulum-v1", num_envs=1, autoreset_mode="Disabled", max_episode_steps=-1)
    obs, _ = again.reset(seed=1)
    seen = 0
    for step in range(9):
        key = obs[0, :2].tobytes()
        if key in shown:
            np.testing.assert_array_equal(again.render()[0], shown[key])
            seen += 1
        if step % 4 == 3:
            obs, _ = again.reset(options={"reset_mask": np.array([True])})
        else:
            obs = again.step(np.zeros((1, 1), np.float32))[0]
    assert seen >= 5


@pytest.mark.parametrize("family", UNDRAWN_FAMILIES)
def test_family__that_envpool_does_not_draw_refuses_the_mode(family: str) -> None:
    tasks = load_tasks().items()
    drawn = [name for name, task in tasks if task["family"] == family]
    name = next(name for name in drawn if load_tasks()[name]["max_num_players"] == 1)
    assert make(name, render_mode=None).metadata["render_modes"] == []
    with pytest.raises(KeywordError, match=r"argument 'render_mode'.*does not draw these tasks"):
        make(name)


def test_camera__is_a_number_of_tasks_with_cameras() -> None:
    with pytest.raises(KeywordError, match=r"argument 'camera'.*Only MuJoCo tasks have cameras"):
        make("CartPole-v1", camera=0)
    with pytest.raises(
        ArgumentTypeError, match="camera for EnvPool's tasks, not a name, got 'side'"
    ):
        make("HalfCheetah-v4", camera="side")
    for camera in (-2, 2**31):
        with pytest.raises(ArgumentError, match=rf"one of the model's cameras.* got {camera}\."):
            make("HalfCheetah-v5", camera=camera)


def test_mujoco__without_opengl_names_the_packages_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(opengl, "find_library", lambda kind: None)
    envs = make("HalfCheetah-v5")
    obs, _ = envs.reset(seed=0)
    with pytest.raises(NotInstalledError, match="apt-get install libegl1 libosmesa6"):
        envs.render()
    assert envs.step(np.zeros((2, 6)))[0].shape == obs.shape


WITHOUT_A_DISPLAY = """
from gymbridge import EnvPoolVectorEnv
from gymbridge.errors import NotInstalledError
envs = EnvPoolVectorEnv("HalfCheetah-v5", render_mode="rgb_array")
envs.reset(seed=0)
for _ in range(2):
    try:
        envs.render()
    except NotInstalledError as error:
        print(error)
print("goes on")
"""


def test_mujoco__with_a_window_library_but_no_display_is_an_error_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a process of its own: GLFW makes no context, and EnvPool would end the process."""
    pytest.importorskip("mujoco")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "PYOPENGL_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    printed = run_python("-c", WITHOUT_A_DISPLAY, MUJOCO_GL="glfw")
    assert printed.out.count("glfw does not work here") == 2
    assert printed.lines[-1] == "goes on"


def test_pixels__of_envpools_threads_need_osmesa(monkeypatch: pytest.MonkeyPatch) -> None:
    check_pixels("mujoco.gym", {"from_pixels": False})
    monkeypatch.setenv("MUJOCO_GL", "egl")
    with pytest.raises(SimulationError, match="MUJOCO_GL=osmesa before Python starts"):
        EnvPoolVectorEnv("HalfCheetah-v5", from_pixels=True)
    with pytest.raises(SimulationError, match="only supported for MuJoCo tasks"):
        EnvPoolVectorEnv("CartPole-v1", from_pixels=True)
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    monkeypatch.setattr("gymbridge.envpool.rendering.find_library", lambda kind: None)
    with pytest.raises(NotInstalledError, match="apt-get install libosmesa6"):
        EnvPoolVectorEnv("HalfCheetah-v5", from_pixels=True)
