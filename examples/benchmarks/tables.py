"""Write the tables of the docs from the results of `run.py`, and draw the picture of some rows.

    python examples/benchmarks/tables.py

A page has a table between the lines `<!-- table: SET -->` and `<!-- end -->`. It stays as it is
where the set has no results yet. A ratio is that of two medians. With one process, the range is the
10th and the 90th percentile of the ratios of single rounds; with several, the lowest and the
highest process are beside the median one. Two tables are of all sets: `summary` has the speeds
that README and the picture name, and `bars` what the project aims at.
"""

import json
import re
import runpy
from collections import defaultdict
from collections.abc import Iterator
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Any

from cases import SETS

from gymbridge.command_line.timing import spread

DOCS = Path(__file__).parents[2] / "docs"
PPO_BAR = 1.5
"""Aim for the wall clock of `ppo.py` over that of Brax's own PPO."""

FIGURE = re.compile(
    r'^\| \[.*?\]\((\S+) "(\w+): ([^:]+): ([^:]+?) over ([^"]+)"\) \| (.*) \| (.*) \|$', re.M
)
"""A row of the summary. The title of its link is the set, the case and the "name over other"."""

Result = dict[str, Any]
Rows = list[list[str]]


def read_results(path: Path) -> list[Result]:
    """Return the results of a file, none if there is no such file."""
    return json.loads(path.read_text(encoding="utf-8"))["results"] if path.exists() else []


def read_set(name: str, folder: Path) -> tuple[list[Result], list[Result]]:
    """Return what was found of a set, and what failed."""
    results = read_results(folder / SETS[name].page / f"{name}.json")
    failed = [one for one in results if "failed" in one]
    return [one for one in results if one not in failed], failed


def by_case(results: list[Result]) -> list[list[Result]]:
    """Return what the processes found, by case and value."""
    cases, found = [one["case"] for one in results], defaultdict(list)
    for one in results:
        found[cases.index(one["case"]), one["value"]].append(one)
    return [found[key] for key in sorted(found)]


def find_ratio(found: list[Result], name: str, reference: str) -> tuple[float, float, float]:
    """Return what a function takes over another: the median, the lowest and the highest."""
    speeds = [one["steps_per_second"] for one in found]
    ratios = [median(speed[reference]) / median(speed[name]) for speed in speeds]
    if len(ratios) > 1 or len(speeds[0][name]) == 1:
        return median(ratios), min(ratios), max(ratios)
    rounds = spread([*map(truediv, speeds[0][reference], speeds[0][name])])
    return ratios[0], rounds["low"], rounds["high"]


def ratios(results: list[Result]) -> Iterator[Rows]:
    """Yield a row for each pair of functions that is compared."""
    rows = [["case", "us per step", "more", "ratio (range)", "note"]]
    for found in by_case(results):
        first = found[0]
        values = {one["value"] for one in results if one["case"] == first["case"]}
        title = first["case"] + (f", {first['value']:,}" if len(values) > 1 else "")
        for name, reference, _ in first["over"]:
            taken, other = (find_time(found, one) for one in (name, reference))
            times = f"{taken:,.1f}", f"{taken - other:+,.0f}"
            case = f"{title}: {name} over {reference}"
            cell = with_range(*find_ratio(found, name, reference))
            rows.append([case, *times, cell, first["note"]])
    yield rows


def find_time(found: list[Result], name: str) -> float:
    """Return the microseconds of a step of the batch in the median process."""
    speeds = [median(one["steps_per_second"][name]) for one in found]
    return 1e6 * found[0]["batch"] / median(speeds)


def with_range(middle: float, low: float, high: float) -> str:
    digits = 0 if middle > 10 else 2 if middle > 0.1 else 3
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def summary(folder: Path) -> Rows:
    """Return the rows of the summary's page with how many times as fast each is."""
    rows = [["times as fast (range)", "what", "beside"]]
    page = (DOCS / "reference" / "benchmarks.md").read_text(encoding="utf-8")
    for link, name, case, way, reference, what, beside in FIGURE.findall(page):
        found = [one for one in read_set(name, folder)[0] if one["case"] == case]
        ratio, low, high = find_ratio(found, way, reference)
        shown = with_range(1 / ratio, 1 / high, 1 / low)
        title = f"{name}: {case}: {way} over {reference}"
        rows.append([f'[{shown}]({link} "{title}")', what, beside])
    return rows


def bars(folder: Path) -> Rows:
    """Return each ratio of all sets that misses its aim, and how many reach theirs."""
    rows, reached = [["set", "case", "ratio (range)", "aim"]], 0
    for name in SETS:
        for found in by_case(read_set(name, folder)[0]):
            for way, reference, bar in found[0].get("over", []):
                ratio = find_ratio(found, way, reference)
                if bar is None or round(ratio[0], 2) <= bar:
                    reached += bar is not None
                    continue
                case = f"{found[0]['case']}: {way} over {reference}"
                rows.append([f"`{name}`", case, with_range(*ratio), f"<= {bar:.2f}"])
    return [*rows, ["all", f"{reached} other ratios", "", "reached"]]


def rates(results: list[Result]) -> Iterator[Rows]:
    """Yield the steps per second of each route, the fastest first."""
    for result in results:
        found = {name: spread(rounds) for name, rounds in result["steps_per_second"].items()}
        rows = [["way", "steps/s (range)"]]
        for name, one in sorted(found.items(), key=lambda item: -item[1]["median"]):
            rows.append([name, "{median:,.0f} ({low:,.0f} to {high:,.0f})".format(**one)])
        yield rows


def curves(results: list[Result]) -> Iterator[Rows]:
    """Yield the median of each route at each value, the fastest at the last first."""
    for case in dict.fromkeys(result["case"] for result in results):
        these = [one for one in results if one["case"] == case]
        cells = {
            (name, one["value"]): median(rounds)
            for one in these
            for name, rounds in one["steps_per_second"].items()
        }
        # The largest value that a route has comes first, and there the fastest route.
        order = sorted(cells, key=lambda key: (-key[1], -cells[key]))
        title = f"{case}, steps/s by {these[0]['axis']}"
        yield grid(title, {key: f"{cells[key]:,.0f}" for key in order})


def sizes(results: list[Result]) -> Iterator[Rows]:
    """Yield the ratios of each case and function at each value."""
    yield grid(
        "environments",
        {
            (f"{one['case']}, {name}", one["value"]): f"{find_ratio(found, name, other)[0]:.2f}"
            for found in by_case(results)
            for one in found[:1]
            for name, other, _ in one["over"]
        },
    )


def grid(title: str, cells: dict[tuple[str, int], str]) -> Rows:
    """Return a row for each name, with its cells by value."""
    names, values = (dict.fromkeys(part) for part in zip(*cells, strict=True))
    head = [title, *(f"{value:,}" for value in sorted(values))]
    return [head, *([name, *(cells.get((name, v), "") for v in sorted(values))] for name in names)]


def trainings(results: list[Result]) -> Iterator[Rows]:
    """Yield what each library took by seed."""
    rows = [["task and target", "library", "seconds by seed", "steps by seed", "reached"]]
    for result in results:
        found = defaultdict(list)
        for run in sorted(result["trainings"], key=lambda run: (run["library"], run["seed"])):
            found[run["library"]].append(run)
        for library, runs in found.items():
            seconds = ", ".join(f"{run['seconds']:.1f}" for run in runs)
            steps = ", ".join(f"{run['steps']:,}" for run in runs)
            reached = f"{sum(run['is_reached'] for run in runs)} of {len(runs)}"
            rows.append([result["case"], library, seconds, steps, reached])
    yield rows


def progress(results: list[Result]) -> Iterator[Rows]:
    """Yield the wall clock of each training to its target."""
    rows = [["training", "seconds", "of these to the first update", "steps", "mean return", "bar"]]
    taken: dict[str, float] = {}
    for run in results:
        steps, seconds, mean = run["progress"][-1]
        shown = "" if mean is None else f"{mean:,.0f} of {run['target']:,}"
        if mean is not None and mean >= run["target"]:
            taken[run["library"]] = seconds
        cells = f"{seconds:.1f}", f"{run['progress'][0][1]:.1f}", f"{steps:,}", shown, ""
        rows.append([run["case"], *cells])
    if taken.keys() >= {"gymbridge", "Brax"}:
        ratio = taken["gymbridge"] / taken["Brax"]
        missed = ", missed" if round(ratio, 2) > PPO_BAR else ""
        rows[1][-1] = f"{ratio:.2f} of Brax's, <= {PPO_BAR:.2f}{missed}"
    yield rows


TABLES = {one.__name__: one for one in (ratios, rates, curves, sizes, trainings, progress)}
OVERVIEWS = {"summary": summary, "bars": bars}


def make_table(name: str, folder: Path) -> str:
    """Return the tables of a set in Markdown, and what failed; empty without results."""
    if name in OVERVIEWS:
        return write(OVERVIEWS[name](folder))
    good, failed = read_set(name, folder)
    parts = [write(rows) for rows in TABLES[SETS[name].table](good)] if good else []
    counts = sorted({len(found) for found in by_case(good)})
    if counts and counts != [1]:
        span = " to ".join(f"{count}" for count in dict.fromkeys((counts[0], counts[-1])))
        parts.append(f"Measured by {span} processes of each case.")
    if failed:
        lines = [f"- {one['case']}, {one['value']:,}: {one['failed']}" for one in failed]
        parts.append("\n".join(["Failed:", "", *lines]))
    return "\n\n".join(parts)


def write(rows: Rows) -> str:
    """Return a Markdown table without its empty columns."""
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    texts = (columns[0][0], "aim", "beside", "case", "library", "note", "what")
    marks = ["---" if column[0] in texts else "---:" for column in columns]
    head, *lines = (f"| {' | '.join(row)} |" for row in zip(*columns, strict=True))
    return "\n".join([head, f"|{'|'.join(marks)}|", *lines])


def renew(found: re.Match[str]) -> str:
    """Return the table of a page as its results are now."""
    table = make_table(found[1], DOCS / "measured")
    return f"<!-- table: {found[1]} -->\n{table}\n<!-- end -->" if table else found[0]


def main() -> None:
    for page in DOCS.rglob("*.md"):
        before = page.read_text(encoding="utf-8")
        after = re.sub(r"<!-- table: (\w+) -->\n.*?<!-- end -->", renew, before, flags=re.DOTALL)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(page)
    runpy.run_path(str(DOCS / "scripts" / "summary.py"), run_name="__main__")


if __name__ == "__main__":
    main()
