"""Libraries of the system that some tests need and the README's test command does not."""

from __future__ import annotations

import ctypes

import pytest

QT5 = ("libQt5Core.so.5", "libQt5Gui.so.5")
OPENGL = ("libEGL.so.1", "libOSMesa.so.8")

NEEDED = {
    "needs_qt5": (QT5, "EnvPool's Procgen needs Qt 5: apt-get install libqt5core5a libqt5gui5"),
    "needs_opengl": (OPENGL, "physics is drawn by OpenGL: apt-get install libegl1 libosmesa6"),
}
"""Shared libraries by marker, and what to say where one is missing."""


def has_libraries(names: tuple[str, ...]) -> bool:
    """Return whether all of these shared libraries can be loaded."""
    try:
        for name in names:
            ctypes.CDLL(name)
    except OSError:
        return False
    return True


def check_libraries(marker: str, *, is_required: bool) -> None:
    """Skip the running test where a marker's libraries are missing, or fail it if required."""
    names, message = NEEDED[marker]
    if has_libraries(names):
        return
    if is_required:
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
