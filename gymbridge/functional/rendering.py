"""Frames that an environment draws by its own function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from gymbridge.errors import EnvContractError

__all__ = ["OwnRenderer"]


class OwnRenderer:
    """Draws states one by one, by the environment's own function.

    Args:
        render: (state) -> (height, width, 3) uint8.
        name: Name of the environment, for errors.
    """

    def __init__(self, render: Callable[[Any], Any], name: str) -> None:
        self._render, self._name = render, name

    def draw(self, state: Any) -> list[np.ndarray]:
        """Return a frame of each environment, from a tree of leaves (num_envs, ...).

        Raises:
            EnvContractError: `render` does not return an image.
        """
        count = len(jax.tree.leaves(state)[0])
        rows = (jax.tree.map(lambda leaf, row=row: leaf[row], state) for row in range(count))
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
