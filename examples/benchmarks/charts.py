"""Draw results of `throughput.py` and `run_all.py`: medians with spread, and curves.

    python examples/benchmarks/charts.py runs/throughput.json --out docs/img

Each task measured at one value gives dots, each with several gives curves. Steps per second are on
a logarithmic axis; lines and bands reach from the second lowest round to the second highest.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from throughput import spread

mpl.use("svg")
import matplotlib.pyplot as plt
from matplotlib.ticker import EngFormatter, LogLocator

STYLE = Path(__file__).with_name("pages.mplstyle")
WIDTH = 5.2  # in inches, about as wide in points as a phone in pixels; texts have some 10 points
OURS, OTHERS = "#2b86cc", "#8d8d8d"
COLORS = {"numpy": "#2b86cc", "torch": "#e0484a", "jax": "#2f9e44"}
STYLES = {"NextStep": "-", "SameStep": "--", "Disabled": ":"}
Result = dict[str, Any]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+", help="files of results")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder of the charts")
    return parser.parse_args()


def read_results(paths: list[Path]) -> tuple[dict[str, list[Result]], list[Result]]:
    """Return the throughputs by task, without routes that have no rounds, and the trainings."""
    tasks: dict[str, list[Result]] = defaultdict(list)
    trainings: list[Result] = []
    for path in paths:
        try:
            for result in json.loads(path.read_text(encoding="utf-8"))["results"]:
                measured = result.get("steps_per_second", {}).items()
                rounds = {name: found for name, found in measured if found}
                if rounds:
                    tasks[result["task"]].append({**result, "steps_per_second": rounds})
                elif "progress" in result:
                    trainings.append(result)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            message = f"{path} has no results: {type(error).__name__}: {error}"
            raise SystemExit(message) from None
    return tasks, trainings


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
    ax.grid(axis="x", alpha=0.3)
    is_batch = result["axis"] == "environments"
    count = f", {result['value']:,} environments" if is_batch else ""
    ax.set(xscale="log", xlabel="environment steps per second")
    ax.get_figure().suptitle(result["task"] + count, fontsize=10)


def draw_curves(results: list[Result], ax: Any) -> None:
    """Draw a curve for each route, over the values at which it could be built."""
    curves: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for result in sorted(results, key=lambda result: result["value"]):
        for name, rounds in result["steps_per_second"].items():
            curves[name].append((result["value"], median(rounds), *spread(rounds)))
    markers = iter("os^vD<>*XPhpd8" * 3)
    for name, points in curves.items():
        values, middles, lows, highs = zip(*points, strict=True)
        style = line_style(name) or {"color": OTHERS, "marker": next(markers)}
        ax.plot(values, middles, label=name, markersize=4, **style)
        ax.fill_between(values, lows, highs, color=style["color"], alpha=0.12, linewidth=0)
    every = sorted({result["value"] for result in results})
    ax.set(xscale="log" if every[0] else "symlog", yscale="log", xlabel=results[0]["axis"])
    ax.set_title(results[0]["task"], fontsize=10)
    ax.set_ylabel("environment steps per second")
    ax.set_xticks(every, [f"{value:,}" for value in every])
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(EngFormatter(sep=""))
    ax.minorticks_off()
    ax.grid(axis="y", alpha=0.3)
    ax.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2, frameon=False)


def draw_trainings(results: list[Result], ax: Any) -> None:
    """Draw the mean return of each training over its wall clock, and the target."""
    for result in results:
        rows = [row for row in result["progress"] if row[2] is not None]
        _, seconds, means = zip(*rows, strict=True) if rows else ((), (), ())
        ax.plot(seconds, means, label=result["task"])
    ax.axhline(results[0]["target"], color=OTHERS, linestyle=":")
    ax.set(xlabel="seconds, with compiling", ylabel="mean return of 100 episodes")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2, frameon=False)


def line_style(name: str) -> dict[str, str]:
    """Return how our routes are drawn, by kind of arrays and mode; nothing for others."""
    library, *options = name.split(", ")
    if library != "gymbridge" or options[0] not in COLORS:
        return {}
    arrays, mode = options
    return {"color": COLORS[arrays], "linestyle": STYLES[mode]}


def print_medians(results: list[Result]) -> None:
    """Print the curves as a Markdown table, the fastest at the largest value first."""
    results = sorted(results, key=lambda result: result["value"])
    names = dict.fromkeys(name for result in results for name in result["steps_per_second"])
    medians = {
        name: [median(result["steps_per_second"].get(name, [0])) for result in results]
        for name in names
    }
    values = " | ".join(f"{result['value']:,}" for result in results)
    print(f"\n| {results[0]['axis']} | {values} |")
    print("|---|" + "---:|" * len(results))
    for name, row in sorted(medians.items(), key=lambda item: item[1][::-1], reverse=True):
        print(f"| {name} | {' | '.join(f'{value:,.0f}' if value else '' for value in row)} |")


def file_name(kind: str, task: str) -> str:
    return f"{kind}_{task.partition(' (')[0].lower().replace(' ', '_')}.svg"


def main() -> None:
    args = parse_args()
    tasks, trainings = read_results(args.results)
    if not tasks and not trainings:
        names = ", ".join(map(str, args.results))
        raise SystemExit(f"{names} has no results: neither steps per second nor trainings")
    args.out.mkdir(parents=True, exist_ok=True)
    plt.style.use(STYLE)
    for task, results in tasks.items():
        is_curve = len({result["value"] for result in results}) > 1
        routes = len(results[0]["steps_per_second"])
        # The names of the routes, beside the dots, are the other half of the width.
        size = (WIDTH, 4) if is_curve else (WIDTH / 2, 0.6 + 0.26 * routes)
        fig, ax = plt.subplots(figsize=size)
        ax.spines[["top", "right"]].set_visible(False)
        if is_curve:
            draw_curves(results, ax)
            print_medians(results)
        else:
            draw_dots(results[0], ax)
        save(fig, args.out / file_name("curves" if is_curve else "dots", task))
    if trainings:
        fig, ax = plt.subplots(figsize=(WIDTH, 3.5))
        draw_trainings(trainings, ax)
        save(fig, args.out / "trainings.svg")


def save(fig: Any, path: Path) -> None:
    fig.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(fig)
    print(path)


if __name__ == "__main__":
    main()
