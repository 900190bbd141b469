"""Draw five rows of the table in `docs/reference/benchmarks.md`.

Writes `docs/img/summary.svg`::

python docs/scripts/summary.py
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib.pyplot as plt

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "reference" / "benchmarks.md"
PICTURE = DOCS / "img" / "summary.svg"
STYLE = DOCS.parent / "examples/benchmarks/pages.mplstyle"

PENDULUM = "Brax's inverted pendulum"
ROWS = {
    f"a step of {PENDULUM}, 256 environments": ("256 inverted pendulums", "bare Brax"),
    "a step of Brax's ant, 1,024 environments on all cores": ("1,024 ants, two cores", "bare Brax"),
    "a step of CartPole in SB3, 64 environments": ("64 CartPoles in SB3", "DummyVecEnv"),
    f"a rollout of {PENDULUM} in TorchRL, 256 environments": (
        "a rollout in TorchRL",
        "BraxWrapper",
    ),
    f"the gradient of 16 steps of {PENDULUM}, 64 environments": (
        "a gradient in torch",
        "BraxWrapper",
    ),
}
"""What each row is of, and what the picture calls it and its reference."""


def read_speeds(page: str) -> dict[str, float]:
    """Return how many times as fast each row is, by what it is of."""
    rows = re.findall(r"^\| \[([\d.]+) .*?\) \| (.*?) \| ", page, flags=re.MULTILINE)
    return {name: float(speed) for speed, name in rows}


def main() -> None:
    """Write the picture."""
    plt.style.use(STYLE)
    speeds = read_speeds(PAGE.read_text(encoding="utf-8"))
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for row, (name, (what, reference)) in enumerate(ROWS.items()):
        speed, label = speeds[name], f"{what},\n{reference} = 1"
        axes.barh(-row, speed - 1, left=1, color="C0" if speed > 1 else "C1", height=0.6)
        text = f"{speed:.{1 if speed < 10 else 0}f} times as fast"
        axes.text(max(speed, 1) * 1.08, -row, text, va="center", fontsize=13)
        axes.text(0.6, -row, label, va="center", ha="right", fontsize=13)
    axes.axvline(1, color="#727983", linewidth=1)
    axes.set(xscale="log", xlim=(0.7, 2000), yticks=[], xlabel="steps per second, reference = 1")
    axes.set_xticks([1, 10, 100], ["1", "10", "100"], fontsize=12)
    axes.xaxis.label.set_size(13)
    axes.minorticks_off()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title("gymbridge: speed beside what it replaces", fontsize=14, loc="right")
    # Text stays text.
    with plt.rc_context({"svg.fonttype": "none"}):
        figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
