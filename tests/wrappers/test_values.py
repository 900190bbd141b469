"""Wrappers return what the formulas give in float64, in every mode and kind of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gymbridge.wrappers import FrameStackObservation, NormalizeObservation, NormalizeReward
from tests.support.batches import Cell, cells, make_batch
from tests.support.wrapper_oracle import Frames, Normal, Returns, compare

SETS = {"batch": "env", "env": "batch"}
"""Statistics of observations, and of the rewards beside them."""


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


def with_statistics(statistics: str, *engines: str) -> list[Any]:
    """Return the cells of engines, each with a kind of statistics."""
    return [
        pytest.param(*cell.values, statistics, marks=cell.marks, id=f"{cell.id}-{statistics}")
        for cell in cells(engines)
    ]


@pytest.mark.parametrize(
    ("cell", "statistics"),
    [
        *with_statistics("batch", "host", "fast", "two_devices", "inverted_pendulum"),
        *with_statistics("env", "host"),
    ],
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

    compare(wrapped, plain, check, 1000 if is_same else 250)
    assert check_obs.ends > 100 or not is_same
    moments = wrapped.env.obs_rms
    assert_close(cell.kind, moments.mean + np.zeros_like(first), check_obs.oracle.moments.means())


@pytest.mark.parametrize("padding", ["reset", "zero", 7.0])
@pytest.mark.parametrize("cell", cells(("host", "fast")))
def test_frames__are_stacked(cell: Cell, padding: Any) -> None:
    batch, plain = make_pair(cell)
    space = plain.single_observation_space
    pad = {"reset": None, "zero": np.zeros(space.shape)}.get(padding, np.full(space.shape, padding))
    given = pad.astype(space.dtype) if padding == 7.0 else padding
    wrapped = FrameStackObservation(batch, 3, padding_type=given)
    assert wrapped.single_observation_space.shape == (3, *space.shape)
    assert wrapped.observation_space.shape == (4, 3, *space.shape)
    compare(wrapped, plain, Checker(Frames(plain.observation_space.sample(), 3, pad), cell), 100)
