"""The arguments that choose what `render` draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymbridge.core.episode import View
from gymbridge.core.requests import read_count, read_number
from gymbridge.errors import ArgumentError, ArgumentTypeError

__all__ = ["DEFAULT_FPS", "read_view"]

DEFAULT_FPS = 30
"""Frames per second of a video, where the simulated time of a step is unknown."""

_MOST_PIXELS = 4096


def read_view(render_mode: Any, render_size: Any, camera: Any) -> View | None:
    """Return the checked arguments for `render`; None if the batch is not drawn."""
    if render_mode is None:
        for name, value in (("render_size", render_size), ("camera", camera)):
            if value is not None:
                raise ArgumentError(f"`{name}` needs `render_mode='rgb_array'`, got {value!r}.")
        return None
    if not isinstance(render_mode, str) or render_mode != "rgb_array":
        raise ArgumentError(
            f"`render_mode` must be None or 'rgb_array', got {render_mode!r}; for a window, put a "
            "batch with 'rgb_array' into gymnasium.wrappers.vector.HumanRendering."
        )
    return View(
        None if render_size is None else _read_size(render_size),
        camera if camera is None or isinstance(camera, str) else read_number("camera", camera),
    )


def _read_size(size: Sequence[Any]) -> tuple[int, int]:
    if not isinstance(size, list | tuple) or len(size) != 2:
        raise ArgumentTypeError(f"`render_size` must be (width, height), got {size!r}.")
    width, height = (read_count("render_size", pixels) for pixels in size)
    if max(width, height) > _MOST_PIXELS:
        raise ArgumentError(
            f"`render_size` must be at most {_MOST_PIXELS} pixels wide and high, got {size!r}."
        )
    return width, height
