"""Result files to Markdown, and the bars."""

from __future__ import annotations

from typing import Any

__all__ = ["FORWARD", "find_faults", "make_table"]

EQUAL_32 = 1e-5  # of float32, unless jax's own gradient moves by more under one ulp
EQUAL_64 = 1e-9
FORWARD = 1e-6
DIFFERENCES_MEDIAN = 1e-5
DIFFERENCES_MAX = 1e-3

HEAD = (
    "| pair | rows ended, steps used | float32 | own sensitivity | float64 "
    "| forward mode | rows with contacts | rows kept | differences: median | max | note |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|"
)


def find_faults(result: dict[str, Any]) -> list[str]:
    """Return which bars a measured pair misses."""
    single, double = result.get("float32", {}), result["float64"]
    faults = [figures["failed"] for figures in (single, double) if "failed" in figures]
    if faults:
        return faults
    measured = [floats for floats in ("float32", "float64") if floats in result]
    for floats, figures in ((floats, result[floats]) for floats in measured):
        if not figures["finite"]:
            faults.append(f"{floats}: the reference's own gradient is not finite")
        if not figures["same_ends"]:
            faults.append(f"{floats}: episodes ended in other steps")
    if not all(result[floats]["finite"] for floats in measured):
        return faults
    for key, equality in single.get("equality", {}).items():
        if not (equality <= EQUAL_32 or _is_ill_conditioned(single)):
            faults.append(f"float32, {key}: {equality:.1e}")
    for key, equality in {"losses": double["losses"], **double["equality"]}.items():
        if not equality <= EQUAL_64:
            faults.append(f"float64, {key}: {equality:.1e}")
    for key, equality in double.get("unroll", {}).items():
        if not equality <= EQUAL_64:
            faults.append(f"unroll, {key}: {equality:.1e}")
    faults += _forward_faults(double.get("forward", {"max": 0}))
    differences = double["differences"]
    if differences["median"] is None:
        return [*faults, "no row is smooth within the stencil"]
    if not differences["median"] <= DIFFERENCES_MEDIAN:
        faults.append(f"differences, median: {differences['median']:.1e}")
    if not differences["max"] <= DIFFERENCES_MAX:
        faults.append(f"differences, max: {differences['max']:.1e}")
    return faults


def _forward_faults(forward: dict[str, Any]) -> list[str]:
    if not forward.get("finite", True):
        return ["forward mode: a slope is not finite"]
    if forward["max"] is None:
        return ["forward mode: its slope jumps in every row"]
    return [] if forward["max"] <= FORWARD else [f"forward mode: {forward['max']:.1e}"]


def make_table(results: list[dict[str, Any]]) -> str:
    """Return the table of what is measured, and lists of what is refused or still missing."""
    refused = [r for r in results if _refusal(r)]
    missing = [r["pair"] for r in results if not {"float32", "float64"} & r.keys()]
    rows = [r for r in results if r not in refused and r["pair"] not in missing]
    lines = [HEAD, *map(_row, rows), ""]
    reasons: dict[str, list[str]] = {}
    for result in refused:
        reasons.setdefault(_refusal(result), []).append(result["pair"])
    lines += [f"- Refused: {', '.join(pairs)}. {reason}" for reason, pairs in reasons.items()]
    lines += [f"- Not measured yet: {', '.join(missing)}."] if missing else []
    return "\n".join(lines).rstrip()


def _refusal(result: dict[str, Any]) -> str:
    """Return why a pair is refused; "" if it is not."""
    found = (result.get(floats, {}).get("refused", "") for floats in ("float32", "float64"))
    return next(filter(None, found), "")


def _row(result: dict[str, Any]) -> str:
    single, double = result.get("float32", {}), result.get("float64", {})
    differences = double.get("differences", {})
    cells = [
        result["pair"],
        _ends(single if "ended" in single else double),
        _worst(single.get("equality")),
        _worst(single.get("sensitivity")),
        _worst(double.get("equality")),
        _figure(double.get("forward", {}).get("max")),
        f"{differences['active']:.0%}" if differences else "",
        _kept(differences),
        _figure(differences.get("median")),
        _figure(differences.get("max")),
        _note(result),
    ]
    return f"| {' | '.join(cells)} |"


def _note(result: dict[str, Any]) -> str:
    """Return what a reader has to know of a pair."""
    if "float64" not in result:
        return "not complete yet"
    notes = find_faults(result)
    norms = result["float64"].get("norms", result.get("float32", {}).get("norms", {}))
    silent = [part for part, norm in norms.items() if norm == 0]
    if silent:
        notes.append(f"{' and '.join(silent)} have no gradient by actions")
    if _is_ill_conditioned(result.get("float32", {})):
        notes.append("ill-conditioned in float32")
    moved = max(result["float64"].get("sensitivity", {"none": 0}).values())
    if moved > EQUAL_64:
        notes.append(f"ill-conditioned in float64: one ulp moves JAX's own gradient by {moved:.1e}")
    measured = [floats for floats in ("float32", "float64") if floats in result]
    sizes = {floats: result[floats].get("size", 1) for floats in measured}
    if min(sizes.values()) < 1:
        notes.append(
            "actions of size "
            + " and ".join(f"{size:g} ({floats})" for floats, size in sizes.items())
        )
    if 0 < (calm := result["float64"].get("forward", {}).get("calm", 1)) < 1:
        notes.append(
            f"forward mode compared in {calm:.0%} of the rows: its slope jumps in the others"
        )
    if result["float64"].get("optimised"):
        notes.append("compiled with LLVM's optimisations")
    unroll = result["float64"].get("unroll")
    if unroll:
        notes.append(f"`unroll` equals steps to {max(unroll.values()):.0e}")
    return "; ".join(notes)


def _is_ill_conditioned(single: dict[str, Any]) -> bool:
    """Whether jax's own gradient moves by more than the bar under one ulp of the weights."""
    return any(moved > EQUAL_32 for moved in single.get("sensitivity", {}).values())


def _kept(differences: dict[str, Any]) -> str:
    if not differences:
        return ""
    steady, smooth = differences["steady"], differences["smooth"]
    return f"{differences['kept']:.0%} ({steady:.0%} steady, {smooth:.0%} smooth)"


def _worst(figures: dict[str, float] | None) -> str:
    return _figure(max(figures.values())) if figures else ""


def _ends(figures: dict[str, Any]) -> str:
    return f"{figures['ended']:.0%}, {figures['used']:.0%}" if "ended" in figures else ""


def _figure(figure: float | None) -> str:
    return "" if figure is None else f"{figure:.1e}"
