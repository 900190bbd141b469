"""Wall clock of Stable-Baselines3's PPO to a fixed return: gymbridge beside `DummyVecEnv`.

    python examples/benchmarks/end_to_end.py --out runs/end_to_end.json

Both train the same task with the same hyperparameters and seeds, in turn. The clock starts before
the environments are built and stops when the mean return of the last 100 episodes, as SB3's
monitor has it, reaches the target. Each library trains for a moment before, so that no clock has
the imports in it. The results go to a JSON file, and a picture beside it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import torch
from charts import OTHERS, OURS, STYLE
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env as make_sb3
from stable_baselines3.common.vec_env import VecEnv
from timing import machine
from tqdm import tqdm

from gymbridge.command_line.options import at_least
from gymbridge.trainers.sb3 import make_vec_env

NUM_ENVS = 64
HYPERPARAMETERS: dict[str, Any] = {
    "n_steps": 32,
    "batch_size": 512,
    "n_epochs": 10,
    "learning_rate": 1e-3,
    "gamma": 0.98,
    "gae_lambda": 0.9,
    "device": "cpu",
}
LIBRARIES: dict[str, tuple[str, Callable[..., VecEnv]]] = {
    "gymbridge": ("EnvPool/", make_vec_env),
    "SB3 DummyVecEnv": ("", make_sb3),
}


class Task(NamedTuple):
    """What is trained until when."""

    env_id: str  # in Gymnasium, and in EnvPool behind its prefix
    target: float  # mean return of the last 100 episodes


TASKS = [Task("CartPole-v1", 450), Task("InvertedPendulum-v5", 900)]


class Target(BaseCallback):
    """Stops the training when the mean return of 100 episodes reaches the target."""

    def __init__(self, target: float) -> None:
        super().__init__()
        self.target, self.is_reached = target, False

    def _on_step(self) -> bool:
        returns = [episode["r"] for episode in self.model.ep_info_buffer]
        self.is_reached = len(returns) == 100 and bool(sum(returns) / 100 >= self.target)
        return not self.is_reached


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    text = "seeds of the runs of each library"
    parser.add_argument("--seeds", type=at_least(0), nargs="+", default=[1, 2, 3], help=text)
    text = "environment steps after which a run ends without the target"
    parser.add_argument("--max-steps", type=at_least(1), default=2_000_000, help=text)
    parser.add_argument("--out", type=Path, default=Path("runs/end_to_end.json"), help="results")
    return parser.parse_args()


def train(task: Task, library: str, seed: int, max_steps: int) -> dict[str, Any]:
    """Return the seconds and environment steps that one run took, and whether it got there."""
    prefix, make = LIBRARIES[library]
    target, start = Target(task.target), time.perf_counter()
    envs = make(prefix + task.env_id, NUM_ENVS, seed=seed)
    model = PPO("MlpPolicy", envs, seed=seed, **HYPERPARAMETERS)
    model.learn(max_steps, callback=target)
    seconds = time.perf_counter() - start
    envs.close()
    taken = {"seconds": seconds, "steps": model.num_timesteps, "is_reached": target.is_reached}
    return {"task": task.env_id, "target": task.target, "library": library, "seed": seed, **taken}


def draw(runs: list[dict[str, Any]], path: Path) -> None:
    """Draw a point for each run and a bar for the median of each library."""
    plt.style.use(STYLE)
    fig, axes = plt.subplots(len(TASKS), figsize=(5.2, 1.6 * len(TASKS)), squeeze=False)
    for ax, task in zip(axes[:, 0], TASKS, strict=True):
        for row, library in enumerate(reversed(LIBRARIES)):
            seconds = [run["seconds"] for run in chosen(runs, task, library)]
            color = OURS if library == "gymbridge" else OTHERS
            ax.barh(row, median(seconds), color=color, alpha=0.5)
            ax.plot(seconds, [row] * len(seconds), "o", color=color)
        ax.set_yticks(range(len(LIBRARIES)), reversed(LIBRARIES))
        ax.set_title(f"{task.env_id} to {task.target:g}", fontsize=10)
        ax.set_xlabel("seconds")
        ax.spines[["top", "right"]].set_visible(False)
    fig.tight_layout()
    fig.savefig(path, metadata={"Date": None})


def chosen(runs: list[dict[str, Any]], task: Task, library: str) -> list[dict[str, Any]]:
    """Return the runs of a library on a task."""
    return [run for run in runs if (run["task"], run["library"]) == (task.env_id, library)]


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)  # fastest for small networks
    args.out.parent.mkdir(parents=True, exist_ok=True)
    runs = []
    for task in TASKS:
        for library in LIBRARIES:
            train(task, library, seed=0, max_steps=1)
    turns = [(t, lib, seed) for t in TASKS for seed in args.seeds for lib in LIBRARIES]
    for turn in tqdm(turns, unit=" runs"):
        runs.append(train(*turn, args.max_steps))
        results = {"machine": machine(), "hyperparameters": HYPERPARAMETERS, "results": runs}
        args.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    draw(runs, args.out.with_suffix(".svg"))
    print(f"{machine()}\n\n| task | library | seconds by seed | steps by seed | reached |")
    print("|---|---|---:|---:|---:|")
    for task in TASKS:
        for library in LIBRARIES:
            these = chosen(runs, task, library)
            seconds = ", ".join(f"{run['seconds']:.1f}" for run in these)
            steps = ", ".join(f"{run['steps']:,}" for run in these)
            count = f"{sum(run['is_reached'] for run in these)} of {len(these)}"
            print(
                f"| {task.env_id} to {task.target:g} | {library} | {seconds} | {steps} | {count} |"
            )


if __name__ == "__main__":
    main()
