"""Hides the notices that Brax and its libraries print when they are imported or build a model."""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Iterator

__all__ = ["quiet"]

_WARNINGS = (
    "Brax System, .* are not actively being maintained",
    "JAXopt is no longer maintained",
)
_LINES = ("Failed to import warp:", "Failed to import mujoco_warp:")
"""MJX prints these where Warp, which Brax does not use, is not installed."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide Brax's notices inside the block; anything else that is printed or warned passes."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            for message in _WARNINGS:
                warnings.filterwarnings("ignore", message)
            yield
    finally:
        for line in printed.getvalue().splitlines(keepends=True):
            if not line.startswith(_LINES):
                sys.stdout.write(line)
