"""How far a check is, and how long the rest takes."""

from __future__ import annotations

import logging
from time import perf_counter

__all__ = ["Progress"]

_LOG = logging.getLogger("gymbridge")

_RUNS = 12
"""Repetitions of the record that all tests make together: 9 to 13 of an environment that keeps the
rules, fewer where a broken rule leaves nothing to compare."""


class Progress:
    """Logs the steps that a check has taken, and the seconds that are left at their mean speed.

    Attributes:
        stage: What the check does now.
    """

    def __init__(self, num_steps: int) -> None:
        self.stage, self._wanted = f"The first run of {num_steps:,}", num_steps
        self._start = perf_counter()

    def note(self, num_steps: int) -> None:
        """Log that the check has taken `num_steps` steps in all."""
        left = max(0, self._wanted - num_steps) * (perf_counter() - self._start) / max(1, num_steps)
        text = "%s: %s steps taken, about %s s to go"
        _LOG.debug(text, self.stage, f"{num_steps:,}", max(1, round(left)))

    def end_first_run(self, num_steps: int, num_calls: int) -> None:
        """Expect the rest, after `num_steps` steps, of which `num_calls` calls are repeated."""
        self._wanted = num_steps + _RUNS * num_calls
