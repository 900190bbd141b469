"""Draw learning curves, each the mean and range of several runs, over steps and over seconds.

    for seed in 0 1 2; do python examples/ppo.py --seed $seed --out runs/ppo/$seed; done
    for seed in 0 1 2; do python examples/shac.py --seed $seed --out runs/shac/$seed; done
    python examples/compare_curves.py --curves PPO=runs/ppo SHAC=runs/shac

Needs: pip install '.[examples]'.

A curve has the runs in the folders below a folder. The script reads their `progress.csv`. The line
is the mean over runs, and the band goes from the lowest to the highest value. A run that ended
early keeps its last value.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import tyro
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

AXES = {"env_steps": "environment steps", "seconds": "seconds"}


@dataclass
class Args:
    """Draw learning curves, each the mean and range of several runs."""

    curves: tuple[str, ...]
    """NAME=FOLDER of each curve; the folder has a folder for each run."""
    title: str = ""
    """Title of the legend."""
    bottom: float | None = None
    """Lowest return in the picture; by default that of the curves."""
    out: Path = Path("runs", "curves.png")
    """Picture file."""


def read_runs(folder: Path) -> list[pd.DataFrame]:
    """Return the table of each run, without the rows before its first episode ended."""
    runs = [pd.read_csv(file) for file in sorted(folder.rglob("progress.csv"))]
    if not runs:
        raise SystemExit(f"{folder}: there is no progress.csv below; train a run first.")
    return [run.dropna(subset="mean_return") for run in runs]


def band(runs: list[pd.DataFrame], column: str) -> tuple[np.ndarray, np.ndarray]:
    """Return positions on the axis (points,), and each run's mean return there (runs, points)."""
    first, last = (pick(run[column].iloc[at] for run in runs) for pick, at in ((max, 0), (max, -1)))
    places = np.linspace(first, last, 300)
    return places, np.stack([np.interp(places, run[column], run["mean_return"]) for run in runs])


def main(args: Args) -> None:
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    for axes, (column, label) in zip(figure.subplots(1, 2, sharey=True), AXES.items(), strict=True):
        for curve in args.curves:
            name, _, folder = curve.partition("=")
            runs = read_runs(Path(folder))
            places, returns = band(runs, column)
            (line,) = axes.plot(places, returns.mean(0), label=f"{name}, {len(runs)} runs")
            edges = returns.min(0), returns.max(0)
            axes.fill_between(places, *edges, color=line.get_color(), alpha=0.2)
        axes.set(xlabel=label, ylabel="mean return", xlim=(0, None), ylim=(args.bottom, None))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.grid(alpha=0.3)
        axes.label_outer()
    axes.legend(title=args.title or None)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.out, dpi=100)
    print(f"Wrote {args.out}")


if __name__ == "__main__":
    main(tyro.cli(Args))
