"""The actions of a check, which depend only on the seed and the environment's index."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import concatenate, create_empty_array

__all__ = ["batch_actions", "draw_actions"]

_BLOCK = (5, 20)


def draw_actions(space: gym.Space[Any], seed: int) -> Iterator[Any]:
    """Yield actions of one environment: blocks of random ones, and of one that is repeated.

    Repeated actions end episodes that random ones do not, and the other way round.
    """
    space = copy.deepcopy(space)
    space.seed(seed)
    rng = np.random.default_rng(seed)
    while True:
        length, repeats = int(rng.integers(*_BLOCK)), bool(rng.integers(2))
        first = space.sample()
        yield first
        for _ in range(length - 1):
            yield first if repeats else space.sample()


def batch_actions(space: gym.Space[Any], actions: Sequence[Any]) -> Any:
    """Return single actions as a batch; `space` is that of a single action."""
    return concatenate(space, actions, create_empty_array(space, len(actions), np.zeros))
