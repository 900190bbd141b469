"""Run a benchmark in several processes, and print each row's median, lowest and highest ratio.

    python examples/benchmarks/repeat.py 5 envpool_step.py [arguments of that script]

It works with every script here that prints one table of rows over a reference.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from timing import Ratio, Row, print_table


def run(script: str, arguments: list[str]) -> list[dict[str, Any]]:
    """Run a script in a process of its own; return the rows that it has written."""
    path = Path(__file__).with_name(script)
    subprocess.run([sys.executable, path, *arguments], check=True, stdout=subprocess.DEVNULL)
    written = Path("runs", path.stem).with_suffix(".json").read_text(encoding="utf-8")
    return json.loads(written)["results"]


def merge(rows: list[dict[str, Any]]) -> Row:
    """Return one row of those that several processes have measured of the same case."""
    ratios = sorted(row["ratio"]["value"] for row in rows)
    middle = min(rows, key=lambda row: abs(row["ratio"]["value"] - median(ratios)))
    note = f"{len(rows)} processes: " + ", ".join(f"{ratio:.2f}" for ratio in ratios)
    note = "; ".join(filter(None, (note, middle["note"])))
    ratio = Ratio(median(ratios), ratios[0], ratios[-1])
    return Row(middle["case"], middle["microseconds"], ratio, middle["bar"], note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("processes", type=int, help="how many, one after the other")
    parser.add_argument("script", help="file name of a script in this folder")
    options, arguments = parser.parse_known_args()
    runs = [run(options.script, arguments) for _ in range(options.processes)]
    sys.argv[0] = f"{Path(options.script).stem}_repeated"
    print_table([merge([*rows]) for rows in zip(*runs, strict=True)])


if __name__ == "__main__":
    main()
