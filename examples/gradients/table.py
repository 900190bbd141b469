"""Results to Markdown, and the limits of their errors."""

import math
from collections.abc import Iterable
from textwrap import shorten
from typing import Any, NamedTuple

HALF = 0.5  # of the rows: where fewer are compared by differences, the note says so

LIMITS = {
    "float32": 1e-5,  # unless jax's own gradient moves by more under one ulp
    "float64": 1e-9,
    "unroll": 1e-9,
    "forward mode": 1e-6,
    "differences": 1e-3,
    "differences, median": 1e-5,
}
COLUMNS = {
    "Brax's own pipelines": ("float32", "float64", "differences"),
    "MJX": ("float64", "forward mode", "differences"),
}
BESIDE = ("losses", "median")
"""Parts of errors that no column shows."""


class Figure(NamedTuple):
    """An error of a pair."""

    column: str
    part: str
    value: float | None  # None where no row could be compared
    limit: float

    @property
    def is_above(self) -> bool:
        """Whether the value is above its limit; NaN is."""
        return self.value is not None and not self.value <= self.limit

    def __str__(self) -> str:
        return f"{self.column}, {self.part}: {self.value:.1e}"


def find_faults(result: dict[str, Any]) -> list[str]:
    """Return what is wrong with a measured pair: gaps, and figures above their limits."""
    gaps, excesses = _judge(result)
    return gaps + [str(figure) for figure in excesses]


def make_table(results: list[dict[str, Any]]) -> str:
    """Return a table of each kind of physics, and a list of what could not be measured."""
    measured: dict[str, list[dict[str, Any]]] = {physics: [] for physics in COLUMNS}
    lost = []
    for result in results:
        pair = result["pair"]
        physics = "MJX" if pair.endswith(("/mjx", "/playground")) else "Brax's own pipelines"
        if "differences" in result["float64"]:
            measured[physics].append(result)
        else:
            reason = shorten(find_faults(result)[0], 120, placeholder=" …")
            lost.append(f"- Not measured: {pair}. {reason}")
    parts = [
        f"## {physics}\n\n{_make_part(found, COLUMNS[physics])}"
        for physics, found in measured.items()
        if found
    ]
    return "\n\n".join([*parts, "\n".join(lost)]).rstrip()


def _make_part(results: list[dict[str, Any]], columns: tuple[str, ...]) -> str:
    """Return a table with a row for each pair that has a note or a fault, and one for the others.

    The row of the others has the largest figure of each column. A star marks a pair with a part of
    the loss that does not depend on the actions.
    """
    lines = [_line(["pair", *columns, "note"]), f"|---|{'---:|' * len(columns)}---|"]
    others: dict[str, dict[str, Any]] = {}
    for result in results:
        name = result["pair"].removesuffix("/playground")
        name += "*" * (0 in result["float64"]["norms"].values())
        notes = _notes(result, columns)
        if notes or find_faults(result):
            lines.append(_line([name, *_cells([result], columns), "; ".join(notes)]))
        else:
            others[name] = result
    if others:
        cells = _cells(others.values(), columns)
        lines.append(_line([f"{len(others)} others, at most", *cells, ""]))
        lines.append(f"\nThe others are {', '.join(others)}.")
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(results: Iterable[dict[str, Any]], columns: tuple[str, ...]) -> list[str]:
    """Return the largest figure of each column with two digits, bold above its limit."""
    figures = [figure for result in results for figure in _figures(result)]
    cells = []
    for column in columns:
        shown = [f for f in figures if f.column == column and f.part not in BESIDE]
        values = [figure.value for figure in shown if figure.value is not None]
        bold = "**" if any(figure.is_above for figure in shown) else ""
        cells.append(f"{bold}{max(values):.1e}{bold}" if values else "")
    return cells


def _figures(result: dict[str, Any]) -> list[Figure]:
    """Return all errors of a pair that was measured."""
    single, double = result.get("float32", {}), result["float64"]
    parts_of = {
        "float32": single.get("equality", {}),
        "float64": {"losses": double["losses"], **double["equality"]},
        "unroll": double.get("unroll", {}),
        "forward mode": {"max": double["forward"]["max"]} if "forward" in double else {},
        "differences": {part: double["differences"][part] for part in ("median", "max")},
    }
    limits = LIMITS | ({"float32": math.inf} if _is_ill_conditioned(single) else {})
    return [
        Figure(column, part, value, limits.get(f"{column}, {part}", limits[column]))
        for column, parts in parts_of.items()
        for part, value in parts.items()
    ]


def _measured(result: dict[str, Any]) -> dict[str, Any]:
    return {floats: result[floats] for floats in ("float32", "float64") if floats in result}


def _judge(result: dict[str, Any]) -> tuple[list[str], list[Figure]]:
    """Return what could not be compared, and what is above a limit."""
    measured, gaps = _measured(result), []
    for floats, figures in measured.items():
        if "failed" in figures:
            return [figures["failed"]], []
        if not figures["finite"]:
            gaps.append(f"{floats}: the reference's own gradient is not finite")
        if not figures["same_ends"]:
            gaps.append(f"{floats}: episodes ended in other steps")
    if not all(figures["finite"] for figures in measured.values()):
        return gaps, []
    forward = result["float64"].get("forward", {"max": 0})
    if not forward.get("finite", True):
        gaps.append("forward mode: a slope is not finite")
    elif forward["max"] is None:
        gaps.append("forward mode: its slope jumps in every row")
    if result["float64"]["differences"]["median"] is None:
        gaps.append("no row is smooth within the stencil")
    return gaps, [figure for figure in _figures(result) if figure.is_above]


def _notes(result: dict[str, Any], columns: tuple[str, ...]) -> list[str]:
    """Return what a reader has to know of a pair and cannot see in the columns."""
    double, (notes, excesses) = result["float64"], _judge(result)
    notes += [str(f) for f in excesses if f.column not in columns or f.part in BESIDE]
    if _is_ill_conditioned(result.get("float32", {})):
        notes.append("ill-conditioned in float32")
    moved = max(double["sensitivity"].values())
    if moved > LIMITS["float64"]:
        notes.append(f"ill-conditioned in float64: {moved:.1e}")
    sizes = [figures.get("size", 1) for figures in _measured(result).values()]
    if min(sizes) < 1:
        notes.append("actions: " + ", ".join(f"{size:g}" for size in sizes))
    if 0 < (calm := double.get("forward", {}).get("calm", 1)) < 1:
        notes.append(f"forward mode in {calm:.0%} of the rows")
    if 0 < (kept := double["differences"]["kept"]) < HALF:
        notes.append(f"differences in {kept:.0%} of the rows")
    return notes


def _is_ill_conditioned(single: dict[str, Any]) -> bool:
    """Whether jax's own gradient moves by more than the limit under one ulp of the weights."""
    return any(moved > LIMITS["float32"] for moved in single.get("sensitivity", {}).values())
