"""How far a check is, and how long the rest takes."""

from __future__ import annotations

import logging
from statistics import median
from time import perf_counter

__all__ = ["Progress"]

_LOG = logging.getLogger("gymbridge")

_WARM = 20
"""Steps of the first run, of which some may compile, before its seconds are estimated."""

_RUNS = 12
"""Repetitions of the record that all tests make together: 9 to 13 of an environment that keeps the
rules, fewer where a broken rule leaves nothing to compare."""

_BATCHES = 3
"""Environments that are stepped for the first time after the first run, and may compile then."""


class Progress:
    """Logs the steps that a check has taken, and the seconds that are left.

    The seconds follow from the first run: how long its steps took, and how much longer those that
    compiled took, since other environments of the check compile as well.

    Attributes:
        stage: What the check does now.
    """

    def __init__(self, num_steps: int) -> None:
        """Expect a first run of `num_steps` steps."""
        self.stage = ""
        self._first_run, self._rest, self._seconds = num_steps, 0, 0.0
        self._taken: list[float] = []
        self._last = perf_counter()

    def note(self, num_steps: int) -> None:
        """Log that the check has taken `num_steps` steps in all."""
        if self._rest:
            left = max(0.0, self._seconds * (1 - (num_steps - self._first_run) / self._rest))
            _LOG.debug("%s: %s steps taken%s", self.stage, f"{num_steps:,}", _to_go(left))
            return
        now = perf_counter()
        self._taken.append(now - self._last)
        self._last, recent = now, self._taken[_WARM:][-100:]
        left = (self._first_run - num_steps) * median(recent) if recent else None
        done = f"{num_steps:,} of {self._first_run:,} steps"
        _LOG.debug("The first run: %s%s", done, _to_go(left))

    def end_first_run(self, num_steps: int, num_calls: int) -> None:
        """Expect the rest, after `num_steps` steps, of which `num_calls` calls are repeated."""
        step = median(self._taken)
        compiling = sum(self._taken) - step * len(self._taken)
        self._first_run, self._rest = num_steps, _RUNS * num_calls
        self._seconds = step * self._rest + _BATCHES * max(0.0, compiling)


def _to_go(seconds: float | None) -> str:
    return "" if seconds is None else f", about {max(1, round(seconds))} s to go"
