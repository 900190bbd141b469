"""The one import of Brax, without the notices that Brax and its libraries print meanwhile."""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Iterator
from typing import Any

__all__ = ["brax_envs", "quiet", "registered"]

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


with quiet():
    from brax import envs as brax_envs


def registered() -> dict[str, Any]:
    """Return Brax's environment classes by name: `brax.envs._envs`, read in brax 0.14.2."""
    return getattr(brax_envs, "_envs", {})
