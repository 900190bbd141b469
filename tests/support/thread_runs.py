"""Runs in several threads; a child process makes them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.support.batches import make_batch
from tests.support.player import play
from tests.support.trees import assert_same

__all__ = ["run_together"]

PLANS = [
    ("envpool", "NextStep", "numpy"),
    ("envpool", "SameStep", "torch"),
    ("brax", "NextStep", "numpy"),
    ("brax", "SameStep", "jax"),
    ("host", "Disabled", "numpy"),
]


def run_together() -> None:
    """Build and play each plan in a thread of its own, twice, and then one after the other."""

    def run(plan: tuple[str, str, str]) -> list[Any]:
        engine, mode, arrays = plan
        return play(make_batch(engine, mode, limit=4, arrays=arrays), 30)

    make_batch("brax")  # imports its engine, which two threads at a time cannot
    with ThreadPoolExecutor(len(PLANS)) as threads:
        together = list(threads.map(run, PLANS + PLANS[::-1]))
    alone = [run(plan) for plan in PLANS]
    assert_same(together, alone + alone[::-1])
