"""Draw learning curves, each the mean and range of several runs, over steps and over seconds.

    for seed in 0 1 2; do python examples/ppo.py --seed $seed --out runs/ppo/$seed; done
    for seed in 0 1 2; do python examples/shac.py --seed $seed --out runs/shac/$seed; done
    python examples/compare_curves.py --curve PPO runs/ppo/* --curve SHAC runs/shac/*

The script reads `progress.csv` in each folder, or `0.monitor.csv` of Stable-Baselines3, of which it
takes the mean return of 100 episodes. The line is the mean over runs, and the band goes from the
lowest to the highest value. A run that ended early keeps its last value.
"""

import argparse
from pathlib import Path


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    text = "name of a curve and the folders of its runs; may be given more than once"
    curve = {"nargs": "+", "action": "append", "required": True, "metavar": ("NAME", "FOLDER")}
    parser.add_argument("--curve", help=text, **curve)
    parser.add_argument("--title", default="", help="title of the legend")
    text = "lowest return in the picture; by default that of the curves"
    parser.add_argument("--bottom", type=float, help=text)
    parser.add_argument("--out", type=Path, default=Path("runs", "curves.png"), help="picture file")
    args = parser.parse_args()
    for name, *folders in args.curve:
        if not folders:
            parser.error(f"--curve {name} needs the folder of a run")
    return args


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

try:
    import numpy as np
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[examples]'"
    raise SystemExit(f"{error}; {install}") from None

AXES = {"env_steps": "environment steps", "seconds": "seconds"}


def read_runs(folders: list[str]) -> list[np.ndarray]:
    """Return the table of each run, without the rows before its first episode ended."""
    tables = [read_table(Path(folder)) for folder in folders]
    runs = [table[np.isfinite(table["mean_return"])] for table in tables]
    for folder, run in zip(folders, runs, strict=True):
        if not len(run):
            raise SystemExit(f"{folder}: no episode ended in this run; train it for more steps.")
    return runs


def read_table(folder: Path) -> np.ndarray:
    """Return a run as a table with the columns env_steps, seconds and mean_return."""
    for name, lines_before in (("progress.csv", 0), ("0.monitor.csv", 1)):
        if (folder / name).is_file():
            options = {"delimiter": ",", "names": True, "ndmin": 1, "skip_header": lines_before}
            table = np.genfromtxt(folder / name, **options)
            return table if name == "progress.csv" else average(table)
    raise SystemExit(f"{folder}: there is no file progress.csv; train a run first.")


def average(episodes: np.ndarray) -> np.ndarray:
    """Return the table of SB3's episodes, with columns r (return), l (length) and t (seconds)."""
    sums = np.concatenate([[0], np.cumsum(episodes["r"])])
    last = np.arange(1, len(sums))
    first = np.maximum(last - 100, 0)
    means = (sums[last] - sums[first]) / (last - first)
    names = [(name, float) for name in ("env_steps", "seconds", "mean_return")]
    rows = zip(np.cumsum(episodes["l"]), episodes["t"], means, strict=True)
    return np.array([*rows], dtype=names)


def band(runs: list[np.ndarray], column: str) -> tuple[np.ndarray, np.ndarray]:
    """Return positions on the axis (points,), and each run's mean return there (runs, points)."""
    first, last = (pick(run[column][at] for run in runs) for pick, at in ((max, 0), (max, -1)))
    places = np.linspace(first, last, 300)
    return places, np.stack([np.interp(places, run[column], run["mean_return"]) for run in runs])


def main() -> None:
    args = parse_args()
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    for axes, (column, label) in zip(figure.subplots(1, 2, sharey=True), AXES.items(), strict=True):
        for name, *folders in args.curve:
            places, returns = band(read_runs(folders), column)
            (line,) = axes.plot(places, returns.mean(0), label=f"{name}, {len(folders)} runs")
            axes.fill_between(
                places, returns.min(0), returns.max(0), color=line.get_color(), alpha=0.2
            )
        axes.set(xlabel=label, ylabel="mean return", xlim=(0, None), ylim=(args.bottom, None))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.grid(alpha=0.3)
        axes.label_outer()
    axes.legend(title=args.title or None)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.out, dpi=100)
    print(f"Wrote {args.out}")


if __name__ == "__main__":
    main()
