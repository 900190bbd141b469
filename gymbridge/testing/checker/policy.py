"""The actions of a check, which depend only on the seed and the environment's index."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import concatenate, create_empty_array

__all__ = ["Policy", "batch_actions"]

_BLOCK = (5, 20)


class Policy:
    """Draws an action for each environment: blocks of random actions, and of one repeated action.

    Repeated actions end episodes that random ones do not, and the other way round. The actions of
    an environment depend on its own seed only.

    Args:
        space: Space of a single action.
        seeds: One seed for each environment.

    Attributes:
        draws: Functions that return the next action of an environment, one for each.
    """

    def __init__(self, space: gym.Space[Any], seeds: Iterable[int]) -> None:
        self.draws = [_Row(space, seed).draw for seed in seeds]

    def __call__(self) -> list[Any]:
        """Return the next action of each environment."""
        return [draw() for draw in self.draws]


class _Row:
    def __init__(self, space: gym.Space[Any], seed: int) -> None:
        self._space = copy.deepcopy(space)
        self._space.seed(seed)
        self._rng = np.random.default_rng(seed)
        self._left, self._repeats, self._last = 0, False, None

    def draw(self) -> Any:
        if self._left == 0:
            self._left = int(self._rng.integers(*_BLOCK))
            self._repeats = bool(self._rng.integers(2))
            self._last = self._space.sample()
        elif not self._repeats:
            self._last = self._space.sample()
        self._left -= 1
        return self._last


def batch_actions(space: gym.Space[Any], actions: list[Any]) -> Any:
    """Return single actions as a batch; `space` is that of a single action."""
    return concatenate(space, actions, create_empty_array(space, len(actions), np.zeros))
