"""Wrappers return what the formulas give in float64, in every mode and kind of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gymbridge.wrappers import FrameStackObservation, NormalizeObservation, NormalizeReward
from tests.support.batches import Cell, cells, make_batch
from tests.support.wrapper_oracle import Frames, Normal, Returns, compare

STEPS = 1000
ENGINES = ("host", "fast", "two_devices", "inverted_pendulum")


def assert_close(kind: str, found: Any, wanted: Any) -> None:
    digits = 1e-4 if kind == "jax" else 1e-5
    np.testing.assert_allclose(found, wanted, digits, digits)


def make_pair(cell: Cell) -> tuple[Any, Any]:
    pytest.importorskip(cell.kind)
    wrapped, plain = (
        make_batch(cell.engine, cell.mode, limit=6, arrays=cell.kind) for _ in range(2)
    )
    return wrapped, plain


class Checker:
    """Compares observations, final ones included, with those of an oracle of observations."""

    def __init__(self, oracle: Any, cell: Cell) -> None:
        self.oracle, self.cell, self.ends = oracle, cell, 0

    def __call__(self, call: Any, raw: Any, idle: np.ndarray) -> None:
        obs, rows, none = raw[0], call.rows, np.zeros_like(idle)
        if call.is_reset:
            assert_close(self.cell.kind, call.found[0], self.oracle.see(obs, rows, rows))
            return
        ended, infos = raw[2] | raw[3], raw[4]
        if self.cell.mode == "SameStep":
            reached = obs.copy()
            for index in ended.nonzero()[0]:
                reached[index] = infos["final_obs"][index]
            shown = self.oracle.see(reached, rows, none).copy()
            for index in ended.nonzero()[0]:
                assert_close(self.cell.kind, call.found[4]["final_obs"][index], shown[index])
                self.ends += 1
            if self.cell.kind != "numpy":  # of every row
                assert_close(self.cell.kind, call.found[4]["final_obs"], shown)
            obs, shown = obs, self.oracle.see(obs, ended, ended)
        elif self.cell.mode == "NextStep":
            shown = self.oracle.see(obs, rows, idle)
        else:
            shown = self.oracle.see(obs, rows & ~idle, none)
        assert_close(self.cell.kind, call.found[0], shown)


@pytest.mark.parametrize("statistics", ["batch", "env"])
@pytest.mark.parametrize("cell", cells(ENGINES))
def test_observations__are_normalised(cell: Cell, statistics: str) -> None:
    batch, plain = make_pair(cell)
    wrapped = NormalizeObservation(batch, statistics=statistics)
    first = plain.observation_space.sample()
    check = Checker(Normal(first, statistics), cell)
    compare(wrapped, plain, check, STEPS)
    assert check.ends > 100 or cell.mode != "SameStep"
    found, wanted = wrapped.obs_rms, check.oracle.moments
    mean = wanted.means() if statistics == "env" else wanted.means()[0]
    assert_close(cell.kind, found.mean, mean)


@pytest.mark.parametrize("statistics", ["batch", "env"])
@pytest.mark.parametrize("cell", cells(ENGINES))
def test_rewards__are_normalised(cell: Cell, statistics: str) -> None:
    batch, plain = make_pair(cell)
    wrapped = NormalizeReward(batch, gamma=0.9, statistics=statistics)
    oracle = Returns(plain.num_envs, statistics, 0.9)

    def check(call: Any, raw: Any, idle: np.ndarray) -> None:
        if call.is_reset:
            oracle.sums[call.rows] = 0
            return
        moved = call.rows if cell.mode == "SameStep" else call.rows & ~idle
        assert_close(cell.kind, call.found[1], oracle.step(raw[1], raw[2], moved))
        assert call.found[1].dtype == raw[1].dtype
        if cell.mode == "SameStep":
            oracle.sums[raw[2] | raw[3]] = 0

    compare(wrapped, plain, check, STEPS)
    assert wrapped.return_rms.var.min() > 0


@pytest.mark.parametrize("padding", ["reset", "zero", 7.0])
@pytest.mark.parametrize("cell", cells(("host", "fast")))
def test_frames__are_stacked(cell: Cell, padding: Any) -> None:
    batch, plain = make_pair(cell)
    space = plain.single_observation_space
    pad = {"reset": None, "zero": np.zeros(space.shape)}.get(padding, np.full(space.shape, padding))
    given = pad.astype(space.dtype) if padding == 7.0 else padding
    wrapped = FrameStackObservation(batch, 3, padding_type=given)
    assert wrapped.single_observation_space.shape == (3, *space.shape)
    oracle = Frames(plain.observation_space.sample(), 3, pad)
    compare(wrapped, plain, Checker(oracle, cell), 150)
