"""Frames that an environment draws by its own function."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np

from gymbridge.core.episode import View
from gymbridge.errors import EnvContractError, unexpected_keyword
from gymbridge.jax_env.env import Drawing, Drawn

__all__ = ["OwnRenderer", "draw_by"]


def draw_by(render: Any, name: str, owner: str = "JaxVectorEnv") -> Drawing:
    """Return how an environment is drawn by its own function, if it has one.

    Such a function is (state) -> (height, width, 3) uint8; anything that cannot be called is none.
    The names of the environment and of the batch's class are for errors.
    """
    return Drawing(partial(OwnRenderer, render, name, owner), Drawn, is_possible=callable(render))


class OwnRenderer:
    """Draws states one by one, by the environment's own function; see `draw_by`."""

    def __init__(self, render: Any, name: str, owner: str, view: View) -> None:
        if not callable(render):
            why = "the environment has no method `render(state)` that returns an image, nor a model"
            raise unexpected_keyword(owner, "render_mode", name, why)
        for keyword, value in zip(("render_size", "camera"), view, strict=True):
            if value is not None:
                why = "the environment draws itself, by its `render(state)`; leave it out"
                raise unexpected_keyword(owner, keyword, name, why)
        self._render, self._name = render, name

    def draw(self, state: Drawn) -> list[np.ndarray]:
        """Return a frame of each environment."""
        rows = (
            jax.tree.map(lambda leaf, row=row: leaf[row], state.states)
            for row in range(state.num_envs)
        )
        return [self._check(np.array(self._render(row))) for row in rows]

    def close(self) -> None:
        """Do nothing."""

    def _check(self, frame: np.ndarray) -> np.ndarray:
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
            raise EnvContractError(
                f"`render` of {self._name} must return (height, width, 3) uint8, got "
                f"{frame.dtype}{list(frame.shape)}."
            )
        return frame
