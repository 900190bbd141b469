"""Wrappers return what the formulas give in float64, in every mode and kind of arrays.

The formulas are here row by row: Gymnasium's moments, and plain lists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.wrappers.utils import RunningMeanStd

from gymbridge.wrappers import (
    FrameStackObservation,
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
)
from tests.support.batches import KINDS, MODES, Cell, cells, make_batch, to_numpy
from tests.support.player import Call, calls

SETS = {"batch": "env", "env": "batch"}
"""Statistics of observations, and of the rewards beside them."""


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


def assert_close(kind: str, found: Any, wanted: Any) -> None:
    digits = 1e-4 if kind == "jax" else 1e-5
    np.testing.assert_allclose(found, wanted, digits, digits)


def make_pair(cell: Cell) -> tuple[Any, Any]:
    pytest.importorskip(cell.kind)
    options = {"limit": 6, "arrays": cell.kind}
    return tuple(make_batch(cell.engine, cell.mode, **options) for _ in range(2))


class Checker:
    """Compares observations, final ones included, with those of an oracle."""

    def __init__(self, oracle: Any, cell: Cell) -> None:
        self.oracle, self.cell, self.ends = oracle, cell, 0

    def __call__(self, call: Any, raw: Any, idle: np.ndarray) -> None:
        obs, rows, none = raw[0], call.rows, np.zeros_like(idle)
        if call.is_reset:
            shown = self.oracle.see(obs, rows, rows)
        elif self.cell.mode == "SameStep":
            shown = self.check_final(call, raw)
        elif self.cell.mode == "NextStep":
            shown = self.oracle.see(obs, rows, idle)
        else:
            shown = self.oracle.see(obs, rows & ~idle, none)
        assert_close(self.cell.kind, call.found[0], shown)

    def check_final(self, call: Any, raw: Any) -> np.ndarray:
        reached, ended, none = raw[0].copy(), raw[2] | raw[3], np.zeros_like(raw[2])
        for index in ended.nonzero()[0]:
            reached[index] = raw[4]["final_obs"][index]
        shown = self.oracle.see(reached, ~none, none)
        for index in ended.nonzero()[0] if self.cell.kind == "numpy" else range(len(ended)):
            assert_close(self.cell.kind, call.found[4]["final_obs"][index], shown[index])
        self.ends += ended.sum()
        return self.oracle.see(raw[0], ended, ended)


def in_turn(engines: tuple[str, ...], *values: Any) -> list[Any]:
    """Return the cells of engines, each with one of some values: each mode and kind with them all.

    What is done to values knows no mode, and which rows are meant knows no kind.
    """
    found = []
    for cell in cells(engines):
        (each,) = cell.values
        value = values[(MODES.index(each.mode) + KINDS.index(each.kind)) % len(values)]
        found.append(pytest.param(each, value, marks=cell.marks, id=f"{cell.id}-{value}"))
    return found


@pytest.mark.parametrize(
    ("cell", "statistics"),
    in_turn(("host", "fast", "two_devices", "inverted_pendulum"), "batch", "env"),
)
def test_steps__are_normalised_by_gymnasium_s_formulas(cell: Cell, statistics: str) -> None:
    batch, plain = make_pair(cell)
    wrapped = NormalizeObservation(batch, statistics=statistics)
    wrapped = NormalizeReward(wrapped, gamma=0.9, statistics=SETS[statistics])
    first = plain.observation_space.sample()
    check_obs = Checker(Normal(first, statistics), cell)
    returns, is_same = Returns(len(first), SETS[statistics], 0.9), cell.mode == "SameStep"

    def check(call: Any, raw: Any, idle: np.ndarray) -> None:
        check_obs(call, raw, idle)
        if call.is_reset:
            returns.sums[call.rows] = 0
            return
        moved = call.rows if is_same else call.rows & ~idle
        assert_close(cell.kind, call.found[1], returns.step(raw[1], raw[2], moved))
        assert call.found[1].dtype == raw[1].dtype
        if is_same:
            returns.sums[raw[2] | raw[3]] = 0

    is_long = is_same and cell[:2] == ("host", "jax")  # whose moments are in 32 bits
    compare(wrapped, plain, check, 1000 if is_long else 100)
    assert check_obs.ends > 20 or not is_same
    moments = wrapped.env.obs_rms
    assert_close(cell.kind, moments.mean + np.zeros_like(first), check_obs.oracle.moments.means())


@pytest.mark.parametrize(("cell", "padding"), in_turn(("host", "fast"), "reset", "zero", 7.0))
def test_frames__are_stacked(cell: Cell, padding: Any) -> None:
    batch, plain = make_pair(cell)
    space = plain.single_observation_space
    pad = {"reset": None, "zero": np.zeros(space.shape)}.get(padding, np.full(space.shape, padding))
    given = pad.astype(space.dtype) if padding == 7.0 else padding
    wrapped = FrameStackObservation(batch, 3, padding_type=given)
    assert wrapped.single_observation_space.shape == (3, *space.shape)
    assert wrapped.observation_space.shape == (4, 3, *space.shape)
    compare(wrapped, plain, Checker(Frames(plain.observation_space.sample(), 3, pad), cell), 60)


@pytest.mark.parametrize("cell", cells(("host", "fast", "envpool", "two_devices")))
def test_statistics__are_the_sums_of_each_episode(cell: Cell) -> None:
    batch, plain = make_pair(cell)
    returns, lengths, ends = np.zeros(4), np.zeros(4, int), 0

    def check(call: Any, raw: Any, idle: np.ndarray) -> None:
        nonlocal ends
        begun, infos = call.rows, call.found[-1]
        if not call.is_reset:
            moved = call.rows if cell.mode == "SameStep" else call.rows & ~idle
            returns[moved] += raw[1][moved]
            lengths[moved] += 1
            begun = moved & (raw[2] | raw[3])
            ends += begun.sum()
            assert ("episode" in infos) == (cell.kind != "numpy" or begun.any())
        if "episode" in infos:
            found = infos["episode"]
            np.testing.assert_array_equal(infos["_episode"], begun)
            np.testing.assert_allclose(found["r"], returns * begun, rtol=1e-6)
            np.testing.assert_array_equal(found["l"], lengths * begun)
            np.testing.assert_array_equal(found["t"] > 0, begun)
        returns[begun] = lengths[begun] = 0

    compare(RecordEpisodeStatistics(batch), plain, check, 60)
    assert ends > 10
