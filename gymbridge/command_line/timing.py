"""Interleaved timing: how long calls take, round by round, since a machine's speed drifts."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from gymbridge.command_line.output import LOG

__all__ = [
    "ROUNDS",
    "fitting_count",
    "measure_rates",
    "name_processor",
    "seconds_per_call",
    "spread",
    "wait",
]

ROUNDS = 10
"""Rounds of a measurement, in each of which every function is timed."""


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the 10th and 90th percentile of two values or more."""
    low, *_, high = quantiles(values, n=10, method="inclusive")
    return {"median": median(values), "low": low, "high": high}


def measure_rates(
    steps: Mapping[str, Callable[[int], Any]], seconds: float, rounds: int = ROUNDS
) -> dict[str, list[float]]:
    """Return the calls per second of each function of the step number in each round, by name.

    Functions take turns. All rounds together take `seconds`, or more where a call takes longer than
    its share; warming up comes before. The last call of a turn is waited for.
    """
    counts = {}
    for name, step in steps.items():
        LOG.info("Warming up %s.", name)
        counts[name] = fitting_count(step, seconds / rounds / len(steps))
    LOG.info("Measuring %d rounds.", rounds)
    rates: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(1, rounds + 1):
        for name, step in steps.items():
            rates[name].append(1 / seconds_per_call(step, counts[name]))
        LOG.debug("Measured %d of %d rounds.", number, rounds)
    return rates


def fitting_count(step: Callable[[int], Any], seconds: float) -> int:
    """Return how many calls take about that long, at least one, after calls that warm up."""
    seconds_per_call(step, 2)
    count = 1
    while (taken := seconds_per_call(step, count)) * count < seconds / 4:
        count *= 2
    return max(1, round(seconds / taken))


def seconds_per_call(step: Callable[[int], Any], count: int) -> float:
    """Call a function of the step number; return the mean time, and wait for the last call."""
    returned, start = None, time.perf_counter()
    for index in range(count):
        returned = step(index)
    wait(returned)
    return (time.perf_counter() - start) / count


def wait(returned: Any) -> None:
    """Wait for arrays of JAX and for torch's GPU, which both compute behind the calls."""
    if jax := sys.modules.get("jax"):
        jax.block_until_ready(returned)
    if (torch := sys.modules.get("torch")) and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def name_processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
