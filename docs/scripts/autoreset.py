"""Draw what `step` returns in each autoreset mode, from a run of each mode.

The task counts its steps, and an episode ends at its second. Writes `docs/img/autoreset.svg`::

    python docs/scripts/autoreset.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt

from gymbridge.testing.scripted import scripted_vector_env

PICTURE = Path(__file__).parents[1] / "img" / "autoreset.svg"
STYLE = Path(__file__).parents[2] / "examples/benchmarks/pages.mplstyle"
LENGTH, CALLS = 2, 4
COLOURS = ("#bcd7f5", "#ffdca8")


class Call(NamedTuple):
    """What a call returned of the only environment."""

    name: str
    observation: int
    reward: float | None
    ended: bool
    final: int | None
    episode: int


def run(mode: str) -> list[Call]:
    """Return what a reset and some steps return, with partial resets where the mode needs them."""
    envs = scripted_vector_env(lengths=[LENGTH], autoreset_mode=mode)
    observations, infos = envs.reset(seed=0)
    calls = [_read("reset", observations, None, False, infos)]
    while len(calls) <= CALLS:
        observations, rewards, terminations, _, infos = envs.step([0])
        calls.append(_read("step", observations, rewards[0], terminations[0], infos))
        if mode == "Disabled" and terminations[0]:
            observations, infos = envs.reset(options={"reset_mask": terminations})
            calls.append(_read("reset\n(mask)", observations, None, False, infos))
    return calls[: CALLS + 1]


def _read(name: str, observations: Any, reward: Any, ended: Any, infos: Any) -> Call:
    final = int(infos["final_obs"][0]) if "final_obs" in infos else None
    episode = int(infos["script"]["episode"][0])
    reward = None if reward is None else float(reward)
    return Call(name, int(observations[0]), reward, bool(ended), final, episode)


def draw(axes: Any, mode: str, calls: list[Call]) -> None:
    """Draw the calls of a mode from left to right, coloured by the episode they show."""
    for x, call in enumerate(calls):
        colour = COLOURS[call.episode % 2]
        edge = "#c0392b" if call.ended else "#727983"
        box = plt.Rectangle((x + 0.03, 0), 0.94, 1, fc=colour, ec=edge, lw=2.5 if call.ended else 1)
        axes.add_patch(box)
        lines = [f"obs {call.observation}"]
        if call.reward is not None:
            lines.append(f"reward {call.reward:g}")
        if call.ended:
            lines.append("terminated")
        if call.final is not None:
            lines.append(f"final_obs {call.final}")
        axes.text(
            x + 0.5, 0.5, "\n".join(lines), ha="center", va="center", fontsize=10, color="black"
        )
        axes.text(x + 0.5, 1.08, call.name, ha="center", va="bottom", fontsize=10)
    axes.set(xlim=(0, CALLS + 1), ylim=(-0.1, 1.6))
    axes.set_title(mode, loc="left", fontsize=12, fontweight="bold")
    axes.axis("off")


def main() -> None:
    """Write the picture."""
    plt.style.use(STYLE)
    modes = ("NextStep", "SameStep", "Disabled")
    figure, rows = plt.subplots(len(modes), figsize=(5.2, 5), layout="constrained")
    for axes, mode in zip(rows, modes, strict=True):
        draw(axes, mode, run(mode))
    # Text stays text.
    with plt.rc_context({"svg.fonttype": "none"}):
        figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
