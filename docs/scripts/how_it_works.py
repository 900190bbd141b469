"""Draw the path of a step through the package.

Writes `docs/img/how_it_works.svg`::

python docs/scripts/how_it_works.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

PICTURE = Path(__file__).parents[1] / "img" / "how_it_works.svg"
STYLE = Path(__file__).parents[2] / "examples/benchmarks/pages.mplstyle"

LAYERS = [
    (["SB3", "CleanRL", "TorchRL", "rsl_rl", "skrl", "RLlib"], "trainers", "#e8e8e8"),
    (["views: gymbridge.trainers"], "", "#d6eadf"),
    (["BridgeVectorEnv: checks, actions, infos, arrays"], "", "#bcd7f5"),
    (["EpisodeRule: autoreset mode, time limit, partial resets"], "", "#bcd7f5"),
    (["HostRunner, PoolRunner", "JitRunner", "GraphRunner"], "how the rule is run", "#bcd7f5"),
    (
        ["Simulator: restart(state, mask, seeds), advance(state, actions, …)"],
        "",
        "#ffdca8",
    ),
    (["EnvPool", "Brax", "Playground", "your own"], "engines", "#e8e8e8"),
]
"""From the user down: texts of the boxes, what stands beside them, and their colour."""

WIDTH = 10.0


def draw_layer(axes: Any, y: float, texts: list[str], label: str, colour: str) -> None:
    """Draw boxes of one height beside each other."""
    width = WIDTH / len(texts)
    for index, text in enumerate(texts):
        box = plt.Rectangle((index * width + 0.05, y), width - 0.1, 0.6, fc=colour, ec="#727983")
        axes.add_patch(box)
        place = (index + 0.5) * width, y + 0.3
        axes.text(*place, text, ha="center", va="center", fontsize=9, color="black")
    axes.text(WIDTH + 0.2, y + 0.3, label, va="center", fontsize=8, style="italic")


def main() -> None:
    """Write the picture."""
    plt.style.use(STYLE)
    figure, axes = plt.subplots(figsize=(8.5, 5), layout="constrained")
    for index, (texts, label, colour) in enumerate(reversed(LAYERS)):
        draw_layer(axes, float(index), texts, label, colour)
        if index:
            arrow = {"arrowstyle": "<->", "color": "#727983"}
            axes.annotate("", (WIDTH / 2, index), (WIDTH / 2, index - 0.4), arrowprops=arrow)
    axes.set(xlim=(0, WIDTH + 2), ylim=(-0.1, len(LAYERS) - 0.3))
    axes.axis("off")
    # Text stays text.
    with plt.rc_context({"svg.fonttype": "none"}):
        figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
