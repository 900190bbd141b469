"""Results to Markdown, and the limits of their errors."""

import math
from collections.abc import Iterable, Sequence
from textwrap import shorten
from typing import Any

FORWARD = 1e-6
HALF = 0.5  # of the rows: where fewer are compared by differences, the note says so

LIMITS = {
    "float32": 1e-5,  # unless jax's own gradient moves by more under one ulp
    "float64": 1e-9,
    "unroll": 1e-9,
    "forward mode": FORWARD,
    "differences": 1e-3,
    "differences, median": 1e-5,
}
COLUMNS = {
    "Brax's own pipelines": ("float32", "float64", "differences"),
    "MJX": ("float64", "forward mode", "differences"),
}


def find_faults(result: dict[str, Any]) -> list[str]:
    """Return what is wrong with a measured pair: gaps, and figures above their limits."""
    gaps, excesses = _judge(result)
    return gaps + [f"{name}: {figure:.1e}" for name, figure in excesses]


def make_table(results: list[dict[str, Any]]) -> str:
    """Return a table of each kind of physics, and a list of what could not be measured."""
    measured: dict[str, list[dict[str, Any]]] = {physics: [] for physics in COLUMNS}
    reasons: dict[str, list[str]] = {}
    for result in results:
        pair = result["pair"]
        physics = "MJX" if pair.endswith(("/mjx", "/playground")) else "Brax's own pipelines"
        if "differences" in result["float64"]:
            measured[physics].append(result)
        else:
            reason = shorten(find_faults(result)[0], 120, placeholder=" …")
            reasons.setdefault(reason, []).append(pair)
    parts = [
        f"## {physics}\n\n{_make_part(found, COLUMNS[physics])}"
        for physics, found in measured.items()
        if found
    ]
    lost = [f"- Not measured: {', '.join(pairs)}. {reason}" for reason, pairs in reasons.items()]
    return "\n\n".join([*parts, "\n".join(lost)]).rstrip()


def _make_part(results: list[dict[str, Any]], columns: tuple[str, ...]) -> str:
    """Return a table with a row for each pair that has a note or a fault, and one for the others.

    The row of the others has the largest figure of each column. A star marks a pair with a part of
    the loss that does not depend on the actions.
    """
    lines = [_line(["pair", *columns, "note"]), f"|---|{'---:|' * len(columns)}---|"]
    others, names = [], []
    for result in results:
        name = result["pair"].removesuffix("/playground")
        name += "*" * (0 in result["float64"]["norms"].values())
        notes = _notes(result, columns)
        if notes or find_faults(result):
            figures = _format([result], columns)
            lines.append(_line([name, *figures, "; ".join(notes)]))
        else:
            others.append(result)
            names.append(name)
    if others:
        figures = _format(others, columns)
        lines.append(_line([f"{len(others)} others, at most", *figures, ""]))
        lines.append(f"\nThe others are {', '.join(names)}.")
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _format(results: Sequence[dict[str, Any]], columns: tuple[str, ...]) -> list[str]:
    """Return the largest figure of each column with two digits, bold above its limit."""
    limits = dict(LIMITS)
    if any(_is_ill_conditioned(result.get("float32", {})) for result in results):
        limits["float32"] = math.inf
    errors = [_errors(result) for result in results]
    cells = []
    for column in columns:
        found = [error[column] for error in errors if error[column] is not None]
        cell = f"{max(found):.1e}" if found else ""
        cells.append(cell if not found or max(found) <= limits[column] else f"**{cell}**")
    return cells


def _errors(result: dict[str, Any]) -> dict[str, Any]:
    """Return the error of a pair by the column, None where there is none."""
    single, double = result.get("float32", {}), result["float64"]
    return {
        "float32": max(single["equality"].values()) if "equality" in single else None,
        "float64": max(double["equality"].values()),
        "forward mode": double.get("forward", {}).get("max"),
        "differences": double["differences"]["max"],
    }


def _measured(result: dict[str, Any]) -> dict[str, Any]:
    return {floats: result[floats] for floats in ("float32", "float64") if floats in result}


def _judge(result: dict[str, Any]) -> tuple[list[str], list[tuple[str, float]]]:
    """Return what could not be compared, and the name and the figure of what is above a limit."""
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
    single, double = result.get("float32", {}), result["float64"]
    by_parts = {
        "float32": {} if _is_ill_conditioned(single) else single.get("equality", {}),
        "float64": {"losses": double["losses"], **double["equality"]},
        "unroll": double.get("unroll", {}),
    }
    checks = [
        (f"{name}, {part}", figure, LIMITS[name])
        for name, parts in by_parts.items()
        for part, figure in parts.items()
    ]
    forward, differences = double.get("forward", {"max": 0}), double["differences"]
    if not forward.get("finite", True):
        gaps.append("forward mode: a slope is not finite")
    elif forward["max"] is None:
        gaps.append("forward mode: its slope jumps in every row")
    else:
        checks.append(("forward mode", forward["max"], FORWARD))
    if differences["median"] is None:
        gaps.append("no row is smooth within the stencil")
    else:
        checks.append(("differences, median", differences["median"], LIMITS["differences, median"]))
        checks.append(("differences, max", differences["max"], LIMITS["differences"]))
    return gaps, [(name, figure) for name, figure, limit in checks if not figure <= limit]


def _notes(result: dict[str, Any], columns: tuple[str, ...]) -> list[str]:
    """Return what a reader has to know of a pair and cannot see in the columns."""
    double, (notes, excesses) = result["float64"], _judge(result)
    for name, figure in excesses:
        kind, _, part = name.partition(", ")
        if kind not in columns or part in ("losses", "median"):
            notes.append(f"{name}: {figure:.1e}")
    if _is_ill_conditioned(result.get("float32", {})):
        notes.append("ill-conditioned in float32")
    moved = max(double["sensitivity"].values())
    if moved > LIMITS["float64"]:
        notes.append(f"ill-conditioned in float64: {moved:.1e}")
    sizes = {floats: figures.get("size", 1) for floats, figures in _measured(result).items()}
    if min(sizes.values()) < 1:
        notes.append("actions: " + ", ".join(f"{size:g}" for size in sizes.values()))
    if 0 < (calm := double.get("forward", {}).get("calm", 1)) < 1:
        notes.append(f"forward mode in {calm:.0%} of the rows")
    if 0 < (kept := double["differences"]["kept"]) < HALF:
        notes.append(f"differences in {kept:.0%} of the rows")
    return notes


def _is_ill_conditioned(single: dict[str, Any]) -> bool:
    """Whether jax's own gradient moves by more than the limit under one ulp of the weights."""
    return any(moved > LIMITS["float32"] for moved in single.get("sensitivity", {}).values())
