"""Ratios of medians in one run, since absolute times drift with the machine, and their tables."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from gymbridge.command_line.timing import fitting_count as fitting_count
from gymbridge.command_line.timing import interleave as interleave
from gymbridge.command_line.timing import name_processor
from gymbridge.command_line.timing import wait as wait
from gymbridge.core.extras import find_version


class Ratio(NamedTuple):
    """How long something takes over how long a reference takes."""

    value: float  # ratio of the medians over rounds
    low: float  # 10th percentile of the rounds' own ratios
    high: float  # 90th percentile

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


class Taken(NamedTuple):
    """What a function takes."""

    microseconds: float  # median per call
    ratio: Ratio


class Row(NamedTuple):
    """One line of a table."""

    case: str
    microseconds: float  # median per step
    ratio: Ratio | float
    bar: float | None
    note: str = ""


def compare(times: dict[str, list[float]], name: str, reference: str) -> Taken:
    """Return what one function took, over another that was timed in the same rounds."""
    ratios = [t / r for t, r in zip(times[name], times[reference], strict=True)]
    deciles = quantiles(ratios, n=10, method="inclusive") if len(ratios) > 1 else ratios
    taken = median(times[name])
    return Taken(taken, Ratio(taken / median(times[reference]), deciles[0], deciles[-1]))


def print_table(rows: list[Row]) -> None:
    """Print the rows as a Markdown table under a line that names the machine.

    The same goes to `runs/<name of the script>.json`.
    """
    path = Path("runs", Path(sys.argv[0]).stem).with_suffix(".json")
    path.parent.mkdir(exist_ok=True)
    written = {"machine": machine(), "results": [to_json(row) for row in rows]}
    path.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    print(f"\n{machine()}\n")
    print("| case | us per step | ratio (spread) | bar | note |")
    print("|---|---:|---:|---:|---|")
    for row in rows:
        bar = "" if row.bar is None else f"<= {row.bar:.2f}"
        ratio = f"{row.ratio:.2f}" if isinstance(row.ratio, float) else str(row.ratio)
        print(f"| {row.case} | {row.microseconds:.1f} | {ratio} | {bar} | {row.note} |")


def to_json(row: Row) -> dict[str, object]:
    ratio = row.ratio._asdict() if isinstance(row.ratio, Ratio) else {"value": row.ratio}
    return {**row._asdict(), "ratio": ratio}


def machine() -> str:
    """Return processor, cores, GPU and the versions of what is installed, in one line."""
    names = ("gymnasium", "numpy", "jax", "brax", "playground", "envpool", "torch", "torchrl")
    found = {name: find_version(name) for name in (*names, "stable-baselines3")}
    versions = ", ".join(f"{name} {number}" for name, number in found.items() if number)
    cores, python = os.cpu_count(), platform.python_version()
    return f"{name_processor()}, {cores} cores{accelerator()}, Python {python}, {versions}"


def accelerator() -> str:
    """Return the kind of JAX's GPU, if this process has started JAX on one."""
    jax = sys.modules.get("jax")
    is_gpu = jax and jax.default_backend() == "gpu"
    return f", {jax.devices()[0].device_kind}" if is_gpu else ""
