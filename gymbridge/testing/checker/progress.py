"""How far a check is, and how long the rest takes."""

from __future__ import annotations

import logging
from time import perf_counter

from gymbridge.testing.checker.driver import Call

__all__ = ["Progress"]

_LOG = logging.getLogger("gymbridge")

_RUNS = 12
"""Repetitions of the record that all tests make together: 9 to 13 of an environment that keeps the
rules, fewer where a broken rule leaves nothing to compare."""


class Progress:
    """Logs the steps that a check has taken, and the seconds that are left at their mean speed.

    Attributes:
        stage: What the check does now.
        num_steps: Steps taken in all runs.
    """

    def __init__(self, num_steps: int) -> None:
        self.stage, self._wanted = f"The first run of {num_steps:,}", num_steps
        self.num_steps, self._start = 0, perf_counter()

    def __call__(self, _: object, call: Call) -> None:
        """Count and log a call of any driver."""
        self.num_steps += call.mask is None
        mean = (perf_counter() - self._start) / max(1, self.num_steps)
        left = max(1, round(max(0, self._wanted - self.num_steps) * mean))
        text = "%s: %s steps taken, about %s s to go"
        _LOG.debug(text, self.stage, f"{self.num_steps:,}", left)

    def end_first_run(self, num_calls: int) -> None:
        """Expect the rest, which repeats the `num_calls` calls of the record."""
        self._wanted = self.num_steps + _RUNS * num_calls
