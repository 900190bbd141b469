"""Interleaved timing: ratios of medians in one run, since absolute times drift with the machine."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple


class Row(NamedTuple):
    """One line of a table."""

    case: str
    microseconds: float  # median per step
    ratio: float  # median over rounds of time / reference time
    bar: float | None
    note: str = ""


def interleave(
    steps: dict[str, Callable[[int], object]], *, count: int, rounds: int
) -> dict[str, tuple[float, float]]:
    """Time each function in turn, round by round; the first one is the reference.

    Args:
        steps: Functions of the step number, by name.
        count: Calls per round and function.
        rounds: Rounds.

    Returns:
        Per name: median microseconds per call, and median ratio to the reference of that round.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():  # compile, wake and warm up
        for index in range(max(2, count // 10)):
            step(index)
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            for index in range(count):
                step(index)
            times[name].append((time.perf_counter() - start) / count * 1e6)
    reference = next(iter(times.values()))
    return {
        name: (median(taken), median(t / r for t, r in zip(taken, reference, strict=True)))
        for name, taken in times.items()
    }


def print_table(rows: list[Row]) -> None:
    """Print the rows as a Markdown table under a line that names the machine."""
    print(f"\n{machine()}\n")
    print("| case | us per step | ratio | bar | note |")
    print("|---|---:|---:|---:|---|")
    for row in rows:
        bar = "" if row.bar is None else f"<= {row.bar:.2f}"
        print(f"| {row.case} | {row.microseconds:.1f} | {row.ratio:.2f} | {bar} | {row.note} |")


def machine() -> str:
    """Return processor, cores and versions in one line."""
    from importlib.metadata import version

    names = ("gymnasium", "numpy", "jax", "brax", "envpool")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    cores, python = os.cpu_count(), platform.python_version()
    return f"{platform.machine()}, {cores} cores, Python {python}, {versions}"
