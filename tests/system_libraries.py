"""Libraries of the system that some tests need and the README's test command does not."""

from __future__ import annotations

import ctypes

import pytest

QT5 = ("libQt5Core.so.5", "libQt5Gui.so.5")


def has_libraries(names: tuple[str, ...]) -> bool:
    """Return whether all of these shared libraries can be loaded."""
    try:
        for name in names:
            ctypes.CDLL(name)
    except OSError:
        return False
    return True


def check_qt5(*, is_required: bool) -> None:
    """Skip the running test where Qt 5 is missing, or fail it where Qt 5 is required."""
    if has_libraries(QT5):
        return
    message = "EnvPool's Procgen needs Qt 5: apt-get install libqt5core5a libqt5gui5"
    if is_required:
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
