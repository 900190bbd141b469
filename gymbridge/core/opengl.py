"""OpenGL without a window, in contexts that mujoco makes.

The environment variable `MUJOCO_GL` chooses the library, as in mujoco: "egl", "osmesa" or "glfw".
If it is not set, on Linux the library is EGL if that is installed, else OSMesa. (mujoco would
choose GLFW, which needs a display.) PyOpenGL uses one library for as long as a process runs, so a
second one cannot be tried.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import importlib.util
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gymbridge.errors import NotInstalledError, SimulationError

__all__ = ["find_library", "import_mujoco", "make_context", "wanted_library"]

_makers: set[int] = set()
"""Processes, this one and those it was forked from, in which a context was made."""

_failures: list[str] = []
"""What MuJoCo said when it found no functions of OpenGL: a second try would end the process."""

_LIBRARIES = {"egl": "EGL", "osmesa": "OSMesa"}

_ADVICE = (
    "Install mujoco with pip, and EGL or OSMesa with `apt-get install libegl1 libosmesa6` (Debian "
    "and Ubuntu). Both work without a display. To choose one, set MUJOCO_GL=egl or "
    "MUJOCO_GL=osmesa before Python starts."
)


def import_mujoco() -> Any:
    """Return the module `mujoco`, whose import loads the library that `MUJOCO_GL` names.

    Raises:
        NotInstalledError: That library does not work.
        ModuleNotFoundError: mujoco is not installed.
    """
    try:
        return importlib.import_module("mujoco")
    except Exception as error:
        wanted = os.environ.get("MUJOCO_GL")
        if not wanted or importlib.util.find_spec("mujoco") is None:
            raise
        raise NotInstalledError(
            f"mujoco cannot be imported with `MUJOCO_GL={wanted}`, since that OpenGL library does "
            f"not work here ({type(error).__name__}: {error}). Without rendering, unset MUJOCO_GL. "
            f"{_ADVICE}"
        ) from error


def make_context() -> Any:
    """Return a context that ``with context.as_current():`` makes current in any one thread.

    Raises:
        NotInstalledError: mujoco, or an OpenGL library that works, is missing.
        SimulationError: This process was forked after a context was made.
    """
    if _makers - {os.getpid()}:
        raise SimulationError(
            "OpenGL was used before this process was forked, and does not survive `fork()`. Draw "
            "inside a worker that multiprocessing's 'spawn' or 'forkserver' started."
        )
    if importlib.util.find_spec("mujoco") is None:
        raise NotInstalledError(f"Rendering needs mujoco, which is not installed. {_ADVICE}")
    if _failures:
        raise NotInstalledError(_failures[0])
    kind = _choose()
    mujoco = import_mujoco()
    try:
        if kind not in _LIBRARIES:
            context = mujoco.GLContext(64, 64)
        else:  # In another thread, since a new context unsets the thread's current one.
            library = importlib.import_module(f"mujoco.{kind}")
            with ThreadPoolExecutor(1) as thread:
                context = thread.submit(library.GLContext, 64, 64).result()
        with context.as_current():  # MuJoCo must find its functions, which some contexts lack
            mujoco.MjrContext(mujoco.MjModel.from_xml_string("<mujoco/>"), 150).free()
    except Exception as error:
        message = (
            f"Rendering needs OpenGL, and {kind} does not work here "
            f"({type(error).__name__}: {error}). {_ADVICE}"
        )
        if isinstance(error, mujoco.FatalError):
            _failures.append(message)
        raise NotInstalledError(message) from error
    _makers.add(os.getpid())
    return context  # Its size does not matter: frames have other buffers.


def find_library(kind: str) -> str | None:
    """Load the library of "egl" or "osmesa", and return its name; None if it is not here."""
    name = ctypes.util.find_library(_LIBRARIES[kind])
    try:
        # For all, since MuJoCo asks the process for OpenGL's functions.
        return name if name and ctypes.CDLL(name, ctypes.RTLD_GLOBAL) else None
    except OSError:
        return None


def wanted_library() -> str | None:
    """Return the library that the user's environment variables name, if any."""
    values = (os.environ.get(name, "") for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM"))
    return next((value.strip().lower() for value in values if value.strip()), None)


def _choose() -> str:
    if wanted := wanted_library():
        return wanted
    if sys.platform != "linux":
        return "mujoco's own choice"
    for kind in _LIBRARIES:
        if find_library(kind):
            return kind
    raise NotInstalledError(
        f"Rendering needs OpenGL, and neither EGL nor OSMesa was found. {_ADVICE}"
    )
