"""Frames of environments, drawn by MuJoCo."""

from __future__ import annotations

import copy
import importlib
import os
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np

from gymbridge.core.episode import View
from gymbridge.core.opengl import make_context
from gymbridge.errors import ArgumentError, nearest
from gymbridge.jax_env.env import Drawn
from gymbridge.jax_env.model import Physics

__all__ = ["MujocoRenderer"]

# Its names come from C++, so type checkers do not see them.
mujoco: Any = importlib.import_module("mujoco")

_SIZE = (320, 240)
_TRACKING = "track"
"""A camera of this name follows the robot; Gymnasium and EnvPool also show it by default."""

_DATA = {
    "qpos": ("q", "qpos"),
    "qvel": ("qd", "qvel"),
    "mocap_pos": ("mocap_pos",),
    "mocap_quat": ("mocap_quat",),
}
"""Fields of `mujoco.MjData`, and what Brax's and MJX's states call them."""


class MujocoRenderer:
    """Draws positions as ``mujoco.Renderer`` does, and keeps its context, scene and buffers.

    Brax's and Playground's own functions make a renderer in each call (brax/io/image.py,
    mujoco_playground/_src/mjx_env.py). A copy of the `mujoco.MjModel` of the physics is drawn.
    """

    def __init__(self, model: Any, view: View) -> None:
        self._model, self._data = copy.copy(model), mujoco.MjData(model)
        width, height = view.size or _SIZE
        buffers = self._model.vis.global_
        buffers.offwidth = max(width, buffers.offwidth)
        buffers.offheight = max(height, buffers.offheight)
        self._shape, self._rect = (height, width, 3), mujoco.MjrRect(0, 0, width, height)
        self._camera = _make_camera(model, view.camera)
        self._scene, self._option = mujoco.MjvScene(self._model, 10000), mujoco.MjvOption()
        self._opengl: Any = None  # The OpenGL context.
        self._resources: Any = None  # What MuJoCo has in that context.
        self._release: Any = None  # Frees both when called, or when the renderer is dropped.

    def draw(self, state: Drawn) -> list[np.ndarray]:
        """Return a frame of each environment."""
        found = {name: _find(state.physics, others) for name, others in _DATA.items()}
        data = {name: leaf for name, leaf in found.items() if leaf is not None}
        data, model = jax.device_get((data, self._visible(state.randomization)))
        # A finalizer that ran, as at the end of the process, has released both.
        if self._release is None or not self._release.alive:
            self._open()
        with self._opengl.as_current():
            return [self._draw_row(data, model, row) for row in range(len(data["qpos"]))]

    def close(self) -> None:
        """Release the OpenGL context and what is in it."""
        if self._release is not None:
            self._release()

    def _open(self) -> None:
        opengl = make_context()
        with opengl.as_current():
            size = mujoco.mjtFontScale.mjFONTSCALE_150
            resources = mujoco.MjrContext(self._model, size.value)
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, resources)
        self._release = weakref.finalize(self, _release, opengl, resources, os.getpid())
        self._opengl, self._resources = opengl, resources

    def _draw_row(self, data: Physics, model: Physics, row: int) -> np.ndarray:
        for owner, fields in ((self._data, data), (self._model, model)):
            for name, batch in fields.items():
                getattr(owner, name)[:] = batch[row]
        mujoco.mj_forward(self._model, self._data)
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(
            self._model, self._data, self._option, None, self._camera, everything, self._scene
        )
        frame = np.empty(self._shape, np.uint8)
        mujoco.mjr_render(self._rect, self._scene, self._resources)
        mujoco.mjr_readPixels(frame, None, self._rect, self._resources)
        return np.ascontiguousarray(frame[::-1])  # OpenGL's first row is the lowest

    def _visible(self, physics: Mapping[str, Any]) -> Physics:
        """Return the physics that a model of MuJoCo has under the same name and shape."""
        own = {name: np.shape(getattr(self._model, name, ())) for name in physics}
        return {name: leaf for name, leaf in physics.items() if leaf.shape[1:] == own[name] != ()}


def _make_camera(model: Any, wanted: int | str | None) -> Any:
    names = [model.camera(number).name for number in range(model.ncam)]
    numbers: dict[Any, Any] = {name: number for number, name in enumerate(names)}
    number = numbers.get(_TRACKING, -1) if wanted is None else numbers.get(wanted, wanted)
    if isinstance(number, str) or not -1 <= number < len(names):
        hint = f"; {nearest(wanted, names)}" if isinstance(wanted, str) else "."
        raise ArgumentError(
            "`camera` must be -1 for the free camera, or the number or name of one of the model's "
            f"cameras {names}, got {wanted!r}{hint}"
        )
    camera = mujoco.MjvCamera()
    if number < 0:
        mujoco.mjv_defaultFreeCamera(model, camera)
    else:
        camera.type, camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, number
    return camera


def _find(physics: Any, names: Iterable[str]) -> Any:
    found = (getattr(physics, name, None) for name in names)
    return next((leaf for leaf in found if leaf is not None), None)


def _release(opengl: Any, resources: Any, maker: int) -> None:
    if os.getpid() != maker:  # A forked child has none of OpenGL's threads.
        return
    with opengl.as_current():
        resources.free()
    opengl.free()
