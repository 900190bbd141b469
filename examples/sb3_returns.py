"""The returns of a training by Stable-Baselines3 as a picture, and saved models with their check.

`sb3_ppo.py`, `sb3_sac.py` and `sb3_atari.py`, beside this file, use them.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from gymnasium.spaces import flatdim
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.monitor import load_results
from stable_baselines3.common.results_plotter import X_TIMESTEPS, plot_results
from stable_baselines3.common.vec_env import VecEnv


def load_model(kind: type[BaseAlgorithm], path: str, device: str = "cpu") -> BaseAlgorithm:
    """Return a saved model; exit if it cannot be loaded as one of this algorithm."""
    try:
        return kind.load(path, device=device)
    except Exception as error:  # SB3 raises whatever another file leads to
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        text = f"--evaluate: {path} cannot be loaded as a model of {kind.__name__}: {reason}"
        raise SystemExit(text) from None


def check_spaces(model: BaseAlgorithm, envs: VecEnv) -> None:
    """Exit if a saved model is of a task with observations or actions of another kind or size."""
    for name in ("observation_space", "action_space"):
        own, given = getattr(model, name), getattr(envs, name)
        if type(own) is not type(given) or flatdim(own) != flatdim(given):
            found = " ".join(f"{own}, and that of the task is {given}".split())
            raise SystemExit(f"--evaluate: the policy is of another task: its {name} is {found}.")


def draw_returns(folder: Path, title: str) -> None:
    """Draw the episodes of `0.monitor.csv` in a folder, into a picture beside that folder."""
    picture = folder.with_suffix(".png")
    picture.unlink(missing_ok=True)  # of an earlier run
    if load_results(str(folder)).empty:
        print("No episode ended in training, so there is no picture of the returns.")
        return
    plot_results([str(folder)], None, X_TIMESTEPS, title, figsize=(6, 3.5))
    plt.savefig(picture)
    print(f"Wrote the returns of the episodes in training to {picture}")
