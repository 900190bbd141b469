"""Thousands of good and bad calls in random order."""

from __future__ import annotations

import zlib
from collections import Counter
from functools import partial

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.batches import Cell, cells
from tests.support.call_machine import CallMachine
from tests.support.call_pair import Setup

pytestmark = pytest.mark.filterwarnings(
    "ignore:The PyTorch API of nested tensors:UserWarning",
    "ignore:overflow encountered in cast:RuntimeWarning",  # of actions, which are taken
)

CELLS = cells(("host", "brax", "envpool", "frozen_lake", "pendulum", "fast"))

QUICK = (
    Cell("host", "torch", "NextStep"),
    Cell("host", "numpy", "SameStep"),
    Cell("host", "jax", "Disabled"),
    Cell("brax", "torch", "Disabled"),
    Cell("frozen_lake", "numpy", "NextStep"),
    Cell("envpool", "jax", "SameStep"),
    Cell("pendulum", "torch", "Disabled"),
)
"""Those of which a short run does not wait for the slow leg."""

CALLS, QUICK_CALLS = 340, 40
"""Calls that each of them makes at least."""


def play(cell: Cell, num_examples: int) -> Counter[str]:
    """Return how often each call was made, and how many episodes ended."""
    engine, kind, mode = cell
    if kind != "numpy":
        pytest.importorskip(kind)
    is_compiled = engine in ("brax", "fast") or kind == "jax"
    setup, seen = Setup(engine, mode, kind, is_shared=is_compiled), Counter[str]()
    setup.make().close()  # skips where the engine is not installed
    # A seed of its own, so that each sees other calls.
    machine = seed(zlib.crc32(repr(setup).encode()))(partial(CallMachine, setup, seen))
    health = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    options = {"max_examples": num_examples, "stateful_step_count": 20}
    run_state_machine_as_test(machine, settings=settings(**options, suppress_health_check=health))
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS)
def test_calls__are_right_or_refused(cell: Cell) -> None:
    seen = play(cell, num_examples=20)
    assert seen.total() - seen["ends"] >= CALLS, seen
    assert seen["ends"] >= 10, seen


@pytest.mark.parametrize("cell", QUICK, ids="-".join)
def test_some_calls__are_right_or_refused(cell: Cell) -> None:
    seen = play(cell, num_examples=8)
    assert seen.total() - seen["ends"] >= QUICK_CALLS, seen


def test_slow_leg__makes_ten_thousand_calls() -> None:
    assert len(CELLS) * CALLS >= 10_000
