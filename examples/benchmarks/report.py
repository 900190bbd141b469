"""The tables of a result file of `run_all.py`, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cases import BAR_SIZE
from timing import Row, compare

PPO_BAR = 1.5
"""Aim for gymbridge's wall clock to the target over that of Brax's own PPO."""

Result = dict[str, Any]


def print_report(results: dict[str, Any]) -> None:
    """Print everything that was found, and why the rest was not."""
    found: list[Result] = results["results"]
    tasks = list(dict.fromkeys(result["task"] for result in found))
    found = sorted(found, key=lambda result: (tasks.index(result["task"]), result["size"] or 0))
    print(f"\n{results['device']}\n")
    print("\n".join(dict.fromkeys(result["machine"] for result in found if "machine" in result)))
    if any("steps_per_second" in result for result in found):
        print_times(found)
    if any("progress" in result for result in found):
        print_trainings(found)
    for result in found:
        if "printed" in result:
            print(f"\n{result['task']}:\n\n{result['printed'].strip()}")
    if failed := [result for result in found if "failed" in result]:
        print("\nFailed:")
    for result in failed:
        size = f", {result['size']:,} envs" if result["size"] else ""
        print(f"- {result['task']}{size}: {result['failed']}")


def print_times(found: Iterable[Result]) -> None:
    """Print what a step takes, over the reference of its case."""
    print("\n| case | us per step | ratio (spread) | bar | note |\n|---|---:|---:|---:|---|")
    for result in found:
        for row in make_rows(result):
            bar = aim(row.ratio[0], row.bar)
            print(f"| {row.case} | {row.microseconds:,.1f} | {row.ratio} | {bar} | {row.note} |")


def make_rows(result: Result) -> list[Row]:
    """Return a row for all that a case timed but its reference, and another where it has a peer."""
    if "steps_per_second" not in result:
        return []
    size, reference = result["value"], result["reference"]
    bars = result["bars"] if size == BAR_SIZE else {}
    case = f"{result['task']}, {size:,} envs"
    times = {
        name: [size * 1e6 / speed for speed in speeds]
        for name, speeds in result["steps_per_second"].items()
    }
    peers = result.get("peers", {})
    return [
        Row(
            f"{case}: {name} over {other}",
            *compare(times, name, other),
            bars.get(name) if other == reference else None,
            result["note"],
        )
        for name in times
        for other in (reference, peers.get(name))
        if other not in (name, None)
    ]


def aim(ratio: float, bar: float | None) -> str:
    """Return the bar, and whether it is met."""
    return "" if bar is None else f"<= {bar:.2f}, {'met' if ratio <= bar else 'missed'}"


def print_trainings(found: Iterable[Result]) -> None:
    """Print the wall clock of each training to its target."""
    print("\n| training | seconds | of these to the first update | steps | mean return | bar |")
    print("|---|---:|---:|---:|---:|---:|")
    runs = {result["library"]: result for result in found if "progress" in result}
    for library, run in runs.items():
        steps, seconds, mean = run["progress"][-1]
        bar = ""
        if library == "gymbridge" and is_solved(run) and is_solved(runs.get("Brax")):
            ratio = seconds / runs["Brax"]["progress"][-1][1]
            bar = f"{ratio:.2f} of Brax's"
            if "on ant" in run["task"]:  # others only try it out
                bar += f", {aim(ratio, PPO_BAR)}"
        shown = "" if mean is None else f"{mean:,.0f} of {run['target']:,}"
        first = run["progress"][0][1]
        print(f"| {run['task']} | {seconds:.1f} | {first:.1f} | {steps:,} | {shown} | {bar} |")


def is_solved(run: Result | None) -> bool:
    """Whether a training has reached its target."""
    mean = run["progress"][-1][2] if run else None
    return run is not None and mean is not None and mean >= run["target"]
