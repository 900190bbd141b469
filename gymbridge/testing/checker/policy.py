"""The actions of a check, which depend only on the seed and the environment's index."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
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

    Attributes:
        rows: Endless actions, one iterator for each environment.
    """

    def __init__(self, space: gym.Space[Any], seeds: Iterable[int]) -> None:
        self.rows = [_draw(space, seed) for seed in seeds]

    def __call__(self) -> list[Any]:
        """Return the next action of each environment."""
        return [next(row) for row in self.rows]


def _draw(space: gym.Space[Any], seed: int) -> Iterator[Any]:
    space = copy.deepcopy(space)
    space.seed(seed)
    rng = np.random.default_rng(seed)
    while True:
        length, repeats = int(rng.integers(*_BLOCK)), bool(rng.integers(2))
        first = space.sample()
        yield first
        for _ in range(length - 1):
            yield first if repeats else space.sample()


def batch_actions(space: gym.Space[Any], actions: list[Any]) -> Any:
    """Return single actions as a batch; `space` is that of a single action."""
    return concatenate(space, actions, create_empty_array(space, len(actions), np.zeros))
