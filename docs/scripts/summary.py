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

ROWS = {
    "Brax's inverted pendulum, 256 environments": "a step of Brax's inverted pendulum, 256\n"
    "environments, beside bare Brax",
    "Brax's ant, 1,024 environments": "a step of Brax's ant, 1,024 environments,\n"
    "on all cores, beside bare Brax",
    "Stable-Baselines3's step, CartPole, 64 environments": "a step of 64 CartPoles in SB3,\n"
    "beside its DummyVecEnv",
    "rollout of Brax's inverted pendulum, 256 environments": "rollouts of 256 inverted pendulums\n"
    "in TorchRL, beside its BraxWrapper",
    "gradient of 16 steps of Brax's inverted pendulum, 64 environments": "the gradient of 16 "
    "steps of 64 of them,\nbeside its BraxWrapper",
}
"""The first cell of each row, and what the picture calls it."""


def read_ratios(page: str) -> dict[str, str]:
    """Return the first ratio of each row as it is written, by the first cell."""
    found: dict[str, str] = {}
    for line in re.findall(r"^\| (.*) \|$", page, flags=re.MULTILINE):
        cells = line.split(" | ")
        if ratio := re.match(r"\[([\d./]+)", cells[-1]):
            found.setdefault(cells[0], ratio[1])
    return found


def main() -> None:
    """Write the picture."""
    plt.style.use(STYLE)
    ratios = read_ratios(PAGE.read_text(encoding="utf-8"))
    figure, axes = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
    for row, (name, label) in enumerate(ROWS.items()):
        above, _, below = ratios[name].partition("/")
        gain = float(below or 1) / float(above)
        axes.barh(-row, gain - 1, left=1, color="C0" if gain > 1 else "C1", height=0.6)
        text = f"{gain:.{1 if gain < 10 else 0}f} times as fast"
        axes.text(max(gain, 1) * 1.08, -row, text, va="center", fontsize=9)
        axes.text(0.7, -row, label, va="center", ha="right", fontsize=9)
    axes.axvline(1, color="#727983", linewidth=1)
    axes.set(xscale="log", xlim=(0.75, 500), yticks=[], xticks=[])
    axes.minorticks_off()
    axes.spines[:].set_visible(False)
    # Text stays text.
    with plt.rc_context({"svg.fonttype": "none"}):
        figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
