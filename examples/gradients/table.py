"""Results to Markdown, and the bars."""

from typing import Any

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
    measured = {floats: result[floats] for floats in ("float32", "float64") if floats in result}
    faults = []
    for floats, figures in measured.items():
        if "failed" in figures:
            return [figures["failed"]]
        if not figures["finite"]:
            faults.append(f"{floats}: the reference's own gradient is not finite")
        if not figures["same_ends"]:
            faults.append(f"{floats}: episodes ended in other steps")
    if not all(figures["finite"] for figures in measured.values()):
        return faults
    single, double = result.get("float32", {}), result["float64"]
    by_parts = {
        "float32": {} if _is_ill_conditioned(single) else single.get("equality", {}),
        "float64": {"losses": double["losses"], **double["equality"]},
        "unroll": double.get("unroll", {}),
    }
    checks = [
        (f"{name}, {part}", figure, EQUAL_32 if name == "float32" else EQUAL_64)
        for name, parts in by_parts.items()
        for part, figure in parts.items()
    ]
    forward, differences = double.get("forward", {"max": 0}), double["differences"]
    if not forward.get("finite", True):
        faults.append("forward mode: a slope is not finite")
    elif forward["max"] is None:
        faults.append("forward mode: its slope jumps in every row")
    else:
        checks.append(("forward mode", forward["max"], FORWARD))
    if differences["median"] is None:
        faults.append("no row is smooth within the stencil")
    else:
        checks.append(("differences, median", differences["median"], DIFFERENCES_MEDIAN))
        checks.append(("differences, max", differences["max"], DIFFERENCES_MAX))
    return faults + [f"{name}: {figure:.1e}" for name, figure, bar in checks if not figure <= bar]


def make_table(results: list[dict[str, Any]]) -> str:
    """Return the table of what was measured, and a list of what could not be."""
    rows, reasons = [], {}
    for result in results:
        if "differences" in result["float64"]:
            rows.append(_row(result))
        else:
            reasons.setdefault(find_faults(result)[0], []).append(result["pair"])
    lost = [f"- Not measured: {', '.join(pairs)}. {reason}" for reason, pairs in reasons.items()]
    return "\n".join([HEAD, *rows, "", *lost]).rstrip()


def _row(result: dict[str, Any]) -> str:
    single, double = result.get("float32", {}), result["float64"]
    differences, ends = double["differences"], single or double
    cells = [
        result["pair"],
        f"{ends['ended']:.0%}, {ends['used']:.0%}",
        _worst(single.get("equality")),
        _worst(single.get("sensitivity")),
        _worst(double["equality"]),
        _figure(double.get("forward", {}).get("max")),
        f"{differences['active']:.0%}",
        "{kept:.0%} ({steady:.0%} steady, {smooth:.0%} smooth)".format(**differences),
        _figure(differences["median"]),
        _figure(differences["max"]),
        "; ".join(_notes(result)),
    ]
    return f"| {' | '.join(cells)} |"


def _notes(result: dict[str, Any]) -> list[str]:
    """Return what a reader has to know of a pair."""
    double, notes = result["float64"], find_faults(result)
    silent = [part for part, norm in double["norms"].items() if norm == 0]
    if silent:
        notes.append(f"{' and '.join(silent)} have no gradient by actions")
    if _is_ill_conditioned(result.get("float32", {})):
        notes.append("ill-conditioned in float32")
    moved = max(double["sensitivity"].values())
    if moved > EQUAL_64:
        notes.append(f"ill-conditioned in float64: one ulp moves JAX's own gradient by {moved:.1e}")
    measured = [floats for floats in ("float32", "float64") if floats in result]
    sizes = {floats: result[floats].get("size", 1) for floats in measured}
    if min(sizes.values()) < 1:
        named = " and ".join(f"{size:g} ({floats})" for floats, size in sizes.items())
        notes.append(f"actions of size {named}")
    if 0 < (calm := double.get("forward", {}).get("calm", 1)) < 1:
        notes.append(
            f"forward mode compared in {calm:.0%} of the rows: its slope jumps in the others"
        )
    if double.get("optimised"):
        notes.append("compiled with LLVM's optimisations")
    if "unroll" in double:
        notes.append(f"`unroll` equals steps to {max(double['unroll'].values()):.0e}")
    return notes


def _is_ill_conditioned(single: dict[str, Any]) -> bool:
    """Whether jax's own gradient moves by more than the bar under one ulp of the weights."""
    return any(moved > EQUAL_32 for moved in single.get("sensitivity", {}).values())


def _worst(figures: dict[str, float] | None) -> str:
    return _figure(max(figures.values())) if figures else ""


def _figure(figure: float | None) -> str:
    return "" if figure is None else f"{figure:.1e}"
