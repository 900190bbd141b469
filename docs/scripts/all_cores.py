"""Draw what `device="cpu:all"` gains over the batch size.

Writes `docs/img/all_cores.svg` and prints the table of `docs/how-to/scaling.md`, from what
`examples/benchmarks/all_cores.py --curve` has measured::

python docs/scripts/all_cores.py
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt

DOCS = Path(__file__).parents[1]
RESULTS = DOCS / "measured" / "all_cores_curve.json"
PICTURE = DOCS / "img" / "all_cores.svg"
STYLE = DOCS.parent / "examples/benchmarks/pages.mplstyle"

Curves = dict[tuple[str, str], dict[int, float]]


def read_curves() -> Curves:
    """Return the time over that of the bare step, by task and device, and by number of envs."""
    curves: Curves = defaultdict(dict)
    for row in json.loads(RESULTS.read_text(encoding="utf-8"))["results"]:
        found = re.fullmatch(r"(\w+), (\d+) envs, .*, (cpu|cpu:all)", row["case"])
        assert found is not None, row["case"]
        curves[found[1], found[3]][int(found[2])] = row["ratio"]["value"]
    return curves


def draw(curves: Curves) -> None:
    """Draw the time on all cores, over that of the bare step on one."""
    plt.style.use(STYLE)
    figure, axes = plt.subplots(figsize=(5.2, 3.6), layout="constrained")
    for (task, device), ratios in curves.items():
        if device == "cpu:all":
            axes.plot([*ratios], [*ratios.values()], marker="o", markersize=4, label=task)
    sizes = sorted({size for ratios in curves.values() for size in ratios})
    axes.axhline(1, linestyle=":", color="#727983")
    axes.set(xscale="log", yscale="log", xlabel="environments", xticks=sizes, yticks=[0.5, 1, 2, 4])
    axes.set_xticklabels([f"{size:,}" for size in sizes])
    axes.set_yticklabels(["0.5", "1", "2", "4"])
    axes.set_ylabel("time over a bare step on one device")
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    # Text stays text.
    with plt.rc_context({"svg.fonttype": "none"}):
        figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Write the picture, and print the table."""
    curves = read_curves()
    draw(curves)
    sizes = sorted({size for ratios in curves.values() for size in ratios})
    print("| environments |", " | ".join(f"{size:,}" for size in sizes), "|")
    print("|---|" + "---:|" * len(sizes))
    for (task, device), ratios in curves.items():
        place = "all cores" if device == "cpu:all" else "one device"
        cells = (f"{ratios[size]:.2f}" if size in ratios else "" for size in sizes)
        print(f"| {task}, {place} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
