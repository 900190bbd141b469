"""Draw the results of `throughput.py`: medians with spread, and curves over the batch size.

    python examples/benchmarks/charts.py runs/throughput.json --out docs/img

Each task with one batch size gives dots, each with several gives curves. Steps per second are on a
logarithmic axis; lines reach from the second lowest round to the second highest.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from throughput import spread

mpl.use("svg")
import matplotlib.pyplot as plt

OURS, OTHERS = "#1f77b4", "#9e9e9e"
Result = dict[str, Any]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+", help="files that throughput.py wrote")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder of the charts")
    return parser.parse_args()


def color(name: str) -> str:
    return OURS if name.startswith("gymbridge") else OTHERS


def draw_dots(result: Result, ax: Any) -> None:
    """Draw a dot with its spread for each route, the fastest on top."""
    rounds = result["steps_per_second"]
    names = sorted(rounds, key=lambda name: median(rounds[name]))
    for row, name in enumerate(names):
        middle, (low, high) = median(rounds[name]), spread(rounds[name])
        ax.plot([low, high], [row, row], color=color(name), linewidth=3, alpha=0.5)
        ax.plot(middle, row, "o", color=color(name))
        ax.annotate(f"{middle:,.0f}", (1.01, row), xycoords=("axes fraction", "data"), va="center")
    ax.set_yticks(range(len(names)), names)
    ax.grid(axis="x", alpha=0.4)
    ax.set(xscale="log", title=f"{result['task']}, {result['num_envs']:,} environments")
    ax.set_xlabel("environment steps per second")


def draw_curves(results: list[Result], ax: Any) -> None:
    """Draw a curve for each route, over the sizes at which it could be built."""
    curves: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for result in results:
        for name, rounds in result["steps_per_second"].items():
            curves[name].append((result["num_envs"], median(rounds)))
    markers = iter("os^vD<>*XPhpd8" * 3)
    for name, points in curves.items():
        style = {"color": color(name), "alpha": 1 if color(name) == OURS else 0.8}
        ax.plot(*zip(*sorted(points), strict=True), label=name, marker=next(markers), **style)
    ax.set(xscale="log", yscale="log", title=results[0]["task"], xlabel="environments")
    ax.set_ylabel("environment steps per second")
    ax.legend(fontsize=7)


def file_name(kind: str, task: str) -> str:
    return f"{kind}_{re.split(r'[ (]', task)[0].lower()}.svg"


def main() -> None:
    args = parse_args()
    tasks: dict[str, list[Result]] = defaultdict(list)
    for path in args.results:
        for result in json.loads(path.read_text(encoding="utf-8"))["results"]:
            tasks[result["task"]].append(result)
    args.out.mkdir(parents=True, exist_ok=True)
    plt.rcParams["svg.hashsalt"] = "gymbridge"  # the same file from the same results
    for task, results in tasks.items():
        is_curve = len({result["num_envs"] for result in results}) > 1
        routes = len(results[0]["steps_per_second"])
        fig, ax = plt.subplots(figsize=(8, 5 if is_curve else 0.6 + 0.26 * routes))
        ax.spines[["top", "right"]].set_visible(False)
        if is_curve:
            draw_curves(results, ax)
        else:
            draw_dots(results[0], ax)
        path = args.out / file_name("curves" if is_curve else "dots", task)
        fig.savefig(path, bbox_inches="tight", metadata={"Date": None})
        plt.close(fig)
        print(path)


if __name__ == "__main__":
    main()
