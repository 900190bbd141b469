"""Results to Markdown, and the limits of their errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["FORWARD", "find_faults", "make_table"]

EQUAL_32 = 1e-5  # of float32, unless jax's own gradient moves by more under one ulp
EQUAL_64 = 1e-9
FORWARD = 1e-6
DIFFERENCES_MEDIAN = 1e-5
DIFFERENCES_MAX = 1e-3
HALF = 0.5  # of the rows: where fewer are compared by differences, the note says so

COLUMNS = {
    "Brax": ("pair", "float32", "float64", "forward mode", "central differences", "note"),
    "Playground": ("task", "float64", "forward mode", "central differences", "note"),
}


def find_faults(result: dict[str, Any]) -> list[str]:
    """Return what is wrong with a measured pair: gaps, and figures above their limits."""
    gaps = _find_gaps(result)
    measured = _measured(result).values()
    if not all("failed" not in figures and figures["finite"] for figures in measured):
        return gaps
    checks = _list_checks(result)
    return gaps + [f"{name}: {figure:.1e}" for name, figure, limit in checks if not figure <= limit]


def make_table(results: list[dict[str, Any]]) -> str:
    """Return a table of each engine's results, and a list of what could not be measured."""
    rows: dict[str, list[str]] = {engine: [] for engine in COLUMNS}
    reasons: dict[str, list[str]] = {}
    for result in results:
        engine = "Playground" if result["pair"].endswith("/playground") else "Brax"
        if "differences" in result["float64"]:
            cells = _cells(result)
            rows[engine].append(_line(cells[column] for column in COLUMNS[engine]))
        else:
            reasons.setdefault(find_faults(result)[0], []).append(result["pair"])
    parts = [
        "\n".join([f"## {engine}", "", _head(engine), *lines])
        for engine, lines in rows.items()
        if lines
    ]
    lost = [f"- Not measured: {', '.join(pairs)}. {reason}" for reason, pairs in reasons.items()]
    return "\n\n".join([*parts, "\n".join(lost)]).rstrip()


def _measured(result: dict[str, Any]) -> dict[str, Any]:
    return {floats: result[floats] for floats in ("float32", "float64") if floats in result}


def _find_gaps(result: dict[str, Any]) -> list[str]:
    """Return what could not be compared."""
    measured, gaps = _measured(result), []
    for floats, figures in measured.items():
        if "failed" in figures:
            return [figures["failed"]]
        if not figures["finite"]:
            gaps.append(f"{floats}: the reference's own gradient is not finite")
        if not figures["same_ends"]:
            gaps.append(f"{floats}: episodes ended in other steps")
    if not all(figures["finite"] for figures in measured.values()):
        return gaps
    double = result["float64"]
    forward = double.get("forward", {"max": 0})
    if not forward.get("finite", True):
        gaps.append("forward mode: a slope is not finite")
    elif forward["max"] is None:
        gaps.append("forward mode: its slope jumps in every row")
    if double["differences"]["median"] is None:
        gaps.append("no row is smooth within the stencil")
    return gaps


def _list_checks(result: dict[str, Any]) -> Iterator[tuple[str, float, float]]:
    """Yield the name, the figure and the limit of each comparison of a finite pair."""
    single, double = result.get("float32", {}), result["float64"]
    by_parts = {
        "float32": {} if _is_ill_conditioned(single) else single.get("equality", {}),
        "float64": {"losses": double["losses"], **double["equality"]},
        "unroll": double.get("unroll", {}),
    }
    for name, parts in by_parts.items():
        for part, figure in parts.items():
            yield f"{name}, {part}", figure, EQUAL_32 if name == "float32" else EQUAL_64
    forward, differences = double.get("forward", {"max": 0}), double["differences"]
    if forward.get("finite", True) and forward["max"] is not None:
        yield "forward mode", forward["max"], FORWARD
    if differences["median"] is not None:
        yield "differences, median", differences["median"], DIFFERENCES_MEDIAN
        yield "differences, max", differences["max"], DIFFERENCES_MAX


def _head(engine: str) -> str:
    columns = COLUMNS[engine]
    return f"{_line(columns)}\n|---|{'---:|' * (len(columns) - 2)}---|"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(result: dict[str, Any]) -> dict[str, str]:
    """Return the cells of a pair by their columns."""
    single, double = result.get("float32", {}), result["float64"]
    limit = math.inf if _is_ill_conditioned(single) else EQUAL_32
    return {
        "pair": result["pair"],
        "task": result["pair"].removesuffix("/playground"),
        "float32": _worst(single.get("equality"), limit),
        "float64": _worst(double["equality"], EQUAL_64),
        "forward mode": _figure(double.get("forward", {}).get("max"), FORWARD),
        "central differences": _figure(double["differences"]["max"], DIFFERENCES_MAX),
        "note": "; ".join(_notes(result)),
    }


def _notes(result: dict[str, Any]) -> list[str]:
    """Return what a reader has to know of a pair."""
    double, notes = result["float64"], _find_gaps(result)
    silent = [part for part, norm in double["norms"].items() if norm == 0]
    if silent:
        notes.append(f"{' and '.join(silent)} have no gradient")
    if _is_ill_conditioned(result.get("float32", {})):
        notes.append("ill-conditioned in float32")
    moved = max(double["sensitivity"].values())
    if moved > EQUAL_64:
        notes.append(f"ill-conditioned in float64: one ulp moves JAX's own gradient by {moved:.1e}")
    sizes = {floats: figures.get("size", 1) for floats, figures in _measured(result).items()}
    if min(sizes.values()) < 1:
        named = ", ".join(f"{size:g} ({floats})" for floats, size in sizes.items())
        notes.append(f"actions: {named}")
    if 0 < (calm := double.get("forward", {}).get("calm", 1)) < 1:
        notes.append(f"forward mode in {calm:.0%} of the rows")
    if 0 < (kept := double["differences"]["kept"]) < HALF:
        notes.append(f"differences in {kept:.0%} of the rows")
    return notes


def _is_ill_conditioned(single: dict[str, Any]) -> bool:
    """Whether jax's own gradient moves by more than the limit under one ulp of the weights."""
    return any(moved > EQUAL_32 for moved in single.get("sensitivity", {}).values())


def _worst(figures: dict[str, float] | None, limit: float) -> str:
    return _figure(max(figures.values()), limit) if figures else ""


def _figure(figure: float | None, limit: float) -> str:
    """Return a figure of two digits, bold above its limit."""
    if figure is None:
        return ""
    return f"{figure:.1e}" if figure <= limit else f"**{figure:.1e}**"
