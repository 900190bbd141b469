"""OpenGL's library is the user's choice, in processes of their own that end in peace."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from gymbridge.core.opengl import make_context
from gymbridge.envpool import rendering as pool_rendering
from gymbridge.errors import NotInstalledError, SimulationError
from gymbridge.jax_env import rendering as mujoco_rendering
from tests.support.python_runs import run_python

pytestmark = pytest.mark.needs_opengl

SCRIPT = """
import sys
import numpy as np
from gymbridge import BraxVectorEnv, EnvPoolVectorEnv
batches = [
    BraxVectorEnv("inverted_pendulum", backend="spring", render_mode="rgb_array"),
    EnvPoolVectorEnv("HalfCheetah-v5", render_mode="rgb_array"),
]
for envs in batches:
    envs.reset(seed=0)
np.savez(sys.argv[1], *[envs.render()[0] for envs in batches])
"""


MIXED = """
import sys
import gymnasium as gym
import gymbridge
drawn = []
for engine in sys.argv[1].split("-"):
    if engine == "envpool":
        envs = gym.make_vec("EnvPool/Ant-v5", num_envs=2, render_mode="rgb_array")
    else:
        envs = gym.make("Ant-v5", render_mode="rgb_array")
    envs.reset(seed=0)
    drawn.append(envs)
    for envs in drawn:
        frame = envs.render()
        assert (frame[0] if isinstance(frame, tuple) else frame).std() > 1
"""


@pytest.mark.parametrize(
    ("library", "order"),
    [
        ("egl", "envpool-mujoco-envpool"),
        ("osmesa", "envpool-mujoco-envpool"),
        ("osmesa", "mujoco-envpool-mujoco"),
    ],
)
def test_library__is_shared_with_gymnasiums_renderer(library: str, order: str) -> None:
    environ = {"MUJOCO_GL": library, "PYOPENGL_PLATFORM": ""}
    assert run_python("-c", MIXED, order, **environ).code == 0


@pytest.mark.parametrize(("library", "leaves_open"), [("egl", True), ("osmesa", False)])
def test_library__is_the_users_choice(library: str, leaves_open: bool, tmp_path: Path) -> None:
    """In a process of its own, which ends without a word."""
    script = SCRIPT if leaves_open else SCRIPT + "for envs in batches:\n    envs.close()\n"
    file, environ = tmp_path / "frames.npz", {"MUJOCO_GL": library, "PYOPENGL_PLATFORM": ""}
    assert run_python("-c", script, file, **environ) == ("", "", 0)
    with np.load(file) as frames:
        for frame in frames.values():
            assert frame.std() > 1


def test_pixels__of_envpools_threads_are_drawn_by_osmesa() -> None:
    code = (
        "from gymbridge import EnvPoolVectorEnv\n"
        "envs = EnvPoolVectorEnv('HalfCheetah-v5', 3, from_pixels=True)\n"
        "obs, _ = envs.reset(seed=0)\n"
        "assert obs.std() > 5, obs\n"
        "for _ in range(9):\n    envs.step(envs.action_space.sample())\n"
    )
    run_python("-c", code, MUJOCO_GL="osmesa", PYOPENGL_PLATFORM="")


def test_context__that_fails_names_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "osmesa")  # PyOpenGL has begun with another one
    monkeypatch.delitem(sys.modules, "mujoco.osmesa", raising=False)
    monkeypatch.setenv("PYOPENGL_PLATFORM", "egl")
    with pytest.raises(NotInstalledError, match="osmesa does not work here"):
        make_context()


def test_context__that_a_parent_process_made_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gymbridge.core.opengl._makers", {os.getppid()})
    with pytest.raises(SimulationError, match=r"does not survive `fork\(\)`"):
        make_context()


def test_release__is_left_to_the_process_that_drew() -> None:
    """A forked child has neither the pool's threads nor OpenGL's."""
    pool_rendering._release(None, None, maker=os.getppid())
    mujoco_rendering._release(None, None, maker=os.getppid())
