"""Frames of EnvPool's environments, which EnvPool itself draws.

Its MuJoCo families end the process if no OpenGL context is current in the calling thread, because
MuJoCo's loader then finds no functions. Each call is made with a context of the `mujoco` package.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from gymbridge.core.episode import View
from gymbridge.core.opengl import find_library, make_context, wanted_library
from gymbridge.envpool.pool import Pool
from gymbridge.envpool.tasks import UNDRAWN_FAMILIES
from gymbridge.errors import (
    ArgumentError,
    ArgumentTypeError,
    NotInstalledError,
    SimulationError,
    unexpected_keyword,
)

__all__ = ["PoolRenderer", "check_pixels", "is_mujoco"]


class PoolRenderer:
    """Draws the environments of a pool; `family` is that of its task.

    The camera of `view` is the number of a camera of the model, or -1 for the default. A number
    that the model lacks is an error of the first `draw`.
    """

    def __init__(self, pool: Pool, family: str, view: View) -> None:
        self._pool, self._size = pool, view.size or (0, 0)  # 0 is the task's own
        self._needs_opengl = is_mujoco(family)
        # Releases pool and context, also where the renderer is dropped without `close`.
        self._release: Any = None
        if family in UNDRAWN_FAMILIES:
            raise _unexpected("render_mode", family, "EnvPool does not draw these tasks")
        if view.camera is not None and not self._needs_opengl:
            raise _unexpected("camera", family, "only MuJoCo tasks have cameras")
        if isinstance(view.camera, str):
            raise ArgumentTypeError(
                "`camera` must be the number of a camera for EnvPool's tasks, not a name, got "
                f"{view.camera!r}."
            )
        self._camera = -1 if view.camera is None else view.camera
        if not -1 <= self._camera < 2**31:
            raise ArgumentError(_CAMERA_RULE.format(self._camera))

    def draw(self, state: Any) -> list[np.ndarray]:
        """Return a frame of each environment; see `gymbridge.core.episode.Renderer.draw`."""
        self._pool.check_turn(state.turn)
        if self._needs_opengl and self._release is None:
            context = make_context()
            self._pool.within = context.as_current
            self._release = weakref.finalize(self, _release, self._pool, context, os.getpid())
        try:
            with self._pool.within():
                frames = self._pool.render(*self._size, self._camera)
        except IndexError as error:
            raise ArgumentError(_CAMERA_RULE.format(self._camera)) from error
        except RuntimeError as error:
            raise SimulationError(f"EnvPool cannot draw this task here: {error}") from error
        # Copies, so that a user who keeps one frame does not keep all of them.
        return [frame.copy() for frame in frames]

    def close(self) -> None:
        """Release the pool and then the OpenGL context, in which the pool must be destroyed."""
        if self._release is not None:
            self._release()


_CAMERA_RULE = (
    "`camera` must be the number of one of the model's cameras, or -1 for the default, got {}."
)


def is_mujoco(family: str) -> bool:
    """Return whether MuJoCo draws a family's tasks."""
    return family.startswith("mujoco.")


def _release(pool: Pool, context: Any, maker: int) -> None:
    # A forked child has neither the pool's threads nor those of OpenGL.
    if os.getpid() != maker:
        return
    pool.close()
    context.free()


def _unexpected(name: str, family: str, why: str) -> Exception:
    return unexpected_keyword(
        "EnvPoolVectorEnv", name, f"a task of {family}", f"{why}; leave it out"
    )


def check_pixels(family: str, kwargs: Mapping[str, Any]) -> None:
    """Raise where ``from_pixels=True`` would end the process; see docs/how-to/rendering.md.

    EnvPool draws these observations in its own threads, in which no context can be made current:
    MuJoCo then finds OpenGL only in a library of OSMesa that is loaded already.

    Raises:
        SimulationError: OpenGL would come from another library than OSMesa.
        NotInstalledError: OSMesa is not installed.
    """
    if not kwargs.get("from_pixels") or not is_mujoco(family):
        return
    if wanted_library() != "osmesa":
        raise SimulationError(
            "`from_pixels=True` draws in EnvPool's own threads, which works with OSMesa alone and "
            "would end the process here. Set MUJOCO_GL=osmesa before Python starts, or use "
            "`render_mode='rgb_array'` and `render()`."
        )
    if find_library("osmesa") is None:
        raise NotInstalledError(
            "`from_pixels=True` needs OSMesa. On Debian and Ubuntu: `apt-get install libosmesa6`."
        )
