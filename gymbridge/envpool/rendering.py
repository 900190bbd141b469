"""Frames of EnvPool's environments, which it draws itself.

Its MuJoCo families end the process where no OpenGL context is current in the calling thread, since
MuJoCo's loader finds no functions then. So one of mujoco's is made current around each call.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np

from gymbridge.core.opengl import find_library, make_context, wanted_library
from gymbridge.core.rendering import View
from gymbridge.envpool.pool import Pool
from gymbridge.envpool.tasks import UNDRAWN_FAMILIES
from gymbridge.errors import (
    ArgumentError,
    ArgumentTypeError,
    NotInstalledError,
    SimulationError,
    unexpected_keyword,
)

__all__ = ["PoolRenderer", "check_pixels"]


class PoolRenderer:
    """Draws the environments of a pool.

    Args:
        pool: The pool.
        family: Of its task.
        view: What the user wants; a camera is the number of one of the model's, -1 the default.

    Raises:
        KeywordError: EnvPool does not draw this family, or it has no cameras.
        ArgumentTypeError: The camera is a name.
    """

    def __init__(self, pool: Pool, family: str, view: View) -> None:
        self._pool, self._size = pool, view.size or (0, 0)  # 0 is the task's own
        self._needs_opengl = family.startswith("mujoco.")
        self._context: Any = None
        self._release: Any = None  # of the context, also where the renderer is dropped
        if family in UNDRAWN_FAMILIES:
            raise _unexpected("render_mode", family, "EnvPool does not draw these tasks")
        if view.camera is not None and not self._needs_opengl:
            raise _unexpected("camera", family, "these tasks are drawn in one way only")
        if isinstance(view.camera, str):
            raise ArgumentTypeError(
                f"`camera` must be the number of a camera in EnvPool's tasks, got {view.camera!r}."
            )
        self._camera = -1 if view.camera is None else view.camera

    def draw(self, state: Any) -> list[np.ndarray]:
        """Return a frame of each environment; see `gymbridge.core.rendering.Renderer.draw`."""
        self._pool.check_turn(state.turn)
        if self._needs_opengl and self._context is None:
            self._context = make_context()
            self._release = weakref.finalize(self, self._context.free)
        with nullcontext() if self._context is None else self._context.as_current():
            try:
                return list(self._pool.render(*self._size, self._camera))
            except IndexError as error:
                raise ArgumentError(
                    f"`camera` must be the number of one of the model's cameras, or -1 for the "
                    f"default, got {self._camera}: {error}."
                ) from error
            except Exception as error:
                raise SimulationError(
                    f"EnvPool cannot draw this task here: {type(error).__name__}: {error}"
                ) from error

    def close(self) -> None:
        """Release the OpenGL context."""
        if self._context is not None:
            self._release()
        self._context = None


def _unexpected(name: str, family: str, why: str) -> Exception:
    return unexpected_keyword(
        "EnvPoolVectorEnv", name, f"a task of {family}", f"{why}; leave it out"
    )


def check_pixels(kwargs: Mapping[str, Any]) -> None:
    """Raise where ``from_pixels=True`` would end the process; see docs/rendering.md.

    EnvPool draws these observations in its own threads, in which no context can be made current:
    MuJoCo then finds OpenGL only in a library of OSMesa that is loaded already.

    Raises:
        SimulationError: Another library than OSMesa was chosen.
        NotInstalledError: OSMesa is not here.
    """
    if not kwargs.get("from_pixels"):
        return
    if wanted_library() != "osmesa":
        raise SimulationError(
            "`from_pixels=True` draws in EnvPool's own threads, which works with OSMesa alone and "
            "would end the process here. Set MUJOCO_GL=osmesa before Python starts, or use "
            "`render_mode='rgb_array'` and gymnasium's AddRenderObservation."
        )
    if find_library("osmesa") is None:
        raise NotInstalledError(
            "`from_pixels=True` needs OSMesa. On Debian and Ubuntu: `apt-get install libosmesa6`."
        )
