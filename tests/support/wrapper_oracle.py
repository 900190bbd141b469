"""What wrappers must return, row by row: Gymnasium's moments in float64, and plain lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.wrappers.utils import RunningMeanStd

from tests.support.batches import to_numpy
from tests.support.player import Call, calls

__all__ = ["Frames", "Moments", "Normal", "Returns", "compare"]


class Moments:
    """Running moments of a batch, or of each of its environments."""

    def __init__(self, num_envs: int, shape: tuple[int, ...], statistics: str) -> None:
        self._is_shared = statistics == "batch"
        self.groups = [RunningMeanStd(shape=shape) for _ in range(num_envs)]
        if self._is_shared:
            self.groups = self.groups[:1] * num_envs

    def update(self, values: np.ndarray, rows: np.ndarray) -> None:
        values = values.astype(np.float64)
        if self._is_shared and rows.any():
            self.groups[0].update(values[rows])
        for index in () if self._is_shared else rows.nonzero()[0]:
            self.groups[index].update(values[index][None])

    def deviations(self) -> np.ndarray:
        return np.sqrt(np.array([group.var for group in self.groups]) + 1e-8)

    def means(self) -> np.ndarray:
        return np.array([group.mean for group in self.groups])


class Normal:
    """Normalised observations."""

    def __init__(self, first: np.ndarray, statistics: str) -> None:
        self.moments = Moments(len(first), first.shape[1:], statistics)
        self.shown = np.zeros(first.shape)

    def see(self, obs: np.ndarray, rows: np.ndarray, began: np.ndarray) -> np.ndarray:
        """Return what is shown after an observation of some rows, of which some began with it."""
        self.moments.update(obs, rows)
        scaled = (obs - self.moments.means()) / self.moments.deviations()
        self.shown = np.array([scaled[i] if row else self.shown[i] for i, row in enumerate(rows)])
        return self.shown


class Frames:
    """Stacks of frames."""

    def __init__(self, first: np.ndarray, size: int, padding: Any) -> None:
        self._size, self._padding = size, padding
        self.stacks = [[obs] * size for obs in first]

    def see(self, obs: np.ndarray, rows: np.ndarray, began: np.ndarray) -> np.ndarray:
        for index in rows.nonzero()[0]:
            new, stack = obs[index], self.stacks[index]
            pad = new if self._padding is None else self._padding
            older = [pad] * (self._size - 1) if began[index] else stack[1:]
            self.stacks[index] = [*older, new]
        return np.array(self.stacks)


class Returns:
    """Rewards over the deviation of discounted returns."""

    def __init__(self, num_envs: int, statistics: str, gamma: float) -> None:
        self.moments = Moments(num_envs, (), statistics)
        self.sums, self._gamma = np.zeros(num_envs), gamma

    def step(self, rewards: np.ndarray, terminated: np.ndarray, rows: np.ndarray) -> np.ndarray:
        sums = self.sums * self._gamma * (1 - terminated) + rewards
        self.sums = np.where(rows, sums, self.sums)
        self.moments.update(self.sums, rows)
        return rewards / self.moments.deviations()


def compare(
    wrapped: Any, plain: Any, check: Callable[[Call, Any, np.ndarray], None], num_steps: int
) -> None:
    """Play a wrapped batch, with partial resets and held rows, and make each call of a plain one.

    `check` gets the call, what the plain batch returned, and the rows that were idle before it.
    """
    idle = np.zeros(plain.num_envs, np.bool_)
    for call in calls(wrapped, num_steps, disturb=np.random.default_rng(5)):
        raw = to_numpy(call.again(plain))
        check(call, raw, idle)
        idle = idle & ~call.rows if call.is_reset else raw[2] | raw[3]
