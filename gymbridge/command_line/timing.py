"""Interleaved timing: how many steps a second, round by round."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from gymbridge.command_line.output import LOG

__all__ = ["ROUNDS", "Spread", "measure_rates", "name_processor"]

ROUNDS = 10
"""Rounds of a measurement, in each of which every function is timed."""


class Spread(NamedTuple):
    """The middle and the spread of a figure over rounds."""

    median: float
    low: float  # 10th percentile
    high: float  # 90th percentile

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of two values or more."""
        deciles = quantiles(values, n=10, method="inclusive")
        return cls(median(values), deciles[0], deciles[-1])


def measure_rates(
    steps: Mapping[str, Callable[[int], Any]], seconds: float, rounds: int = ROUNDS
) -> dict[str, list[float]]:
    """Return the calls per second of each function in each round, by name.

    The functions are timed in turn, round by round, since a machine's speed drifts. They return
    rewards, (num_envs,): reading one waits for the arrays of a device. All rounds together take
    `seconds`, or more where a call takes longer than its share; warming up comes before. How long
    they take is logged once it is known, from the calls that warmed up.
    """
    share, counts, expected = seconds / rounds / len(steps), {}, 0.0
    for name, step in steps.items():
        LOG.info("Warming up %s.", name)
        counts[name], taken = _count_calls(step, share)
        expected += counts[name] * taken
    LOG.info(
        "Measuring %d rounds, which take about %d s.", rounds, max(1, round(rounds * expected))
    )
    rates: dict[str, list[float]] = {name: [] for name in steps}
    start = time.perf_counter()
    for number in range(1, rounds + 1):
        for name, step in steps.items():
            rates[name].append(counts[name] / _time_calls(step, counts[name]))
        left = (time.perf_counter() - start) / number * (rounds - number)
        LOG.debug("Measured %d of %d rounds, %.0f s to go.", number, rounds, left)
    return rates


def _count_calls(step: Callable[[int], Any], share: float) -> tuple[int, float]:
    """Return how many calls take about `share` seconds, after calls that compile and warm up.

    The second value is the seconds that a call took.
    """
    _time_calls(step, 2)
    count = 1
    while (taken := _time_calls(step, count)) < share / 4:
        count *= 2
    return max(1, round(count * share / taken)), taken / count


def _time_calls(step: Callable[[int], Any], count: int) -> float:
    start = time.perf_counter()
    for index in range(count - 1):
        step(index)
    float(step(count - 1)[0])
    return time.perf_counter() - start


def name_processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
