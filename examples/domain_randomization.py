"""Train with and without randomised physics, and compare both policies over a range of physics.

    python examples/domain_randomization.py

Needs: pip install '.[brax,sb3,examples]'.

For each seed two policies train for the same number of steps: one with the model's own physics, the
other with a leaf of the model drawn for each episode. Both then play without noise, with that leaf
set to values from a range that is wider than the one trained on. Table, picture and policies go to
`runs/<env id>/randomization/`.

The leaf is the viscous friction of the joints. Any other float leaf that the backend reads works:

    --env-id Brax/hopper-v0 --backend spring --leaf geom_friction --total-steps 2000000
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import torch
import tyro
from gymnasium.vector import VectorEnv
from matplotlib.figure import Figure
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

from gymbridge.trainers.sb3 import make_vec_env


@dataclass
class Args:
    """Train with and without randomised physics, and compare both policies."""

    env_id: str = "Brax/inverted_pendulum-v0"
    """Brax task."""
    backend: str = "generalized"
    """Physics backend of Brax."""
    leaf: str = "dof.damping"
    """Leaf of the model, a dotted path."""
    low: float = 0.1
    """Smallest factor in training."""
    high: float = 10.0
    """Largest factor in training."""
    points: int = 13
    """Number of factors evaluated, from low / 3 to 3 high."""
    episodes: int = 16
    """Episodes for each factor."""
    total_steps: int = 250_000
    """Steps of each training."""
    num_envs: int = 64
    """Environments stepped at once."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """One for each training."""
    out: str = ""
    """Folder, by default runs/<env id>/randomization."""


def make_draw(args: Args) -> Callable[[Any, jax.Array], dict[str, jax.Array]]:
    """Return the function that draws the physics of one episode: a factor, log-uniformly."""

    def draw(model: Any, key: jax.Array) -> dict[str, jax.Array]:
        low, high = jnp.log(args.low), jnp.log(args.high)
        factor = jnp.exp(jax.random.uniform(key, minval=low, maxval=high))
        return {args.leaf: factor * attrgetter(args.leaf)(model)}

    return draw


def train(args: Args, seed: int, path: Path, **keywords: Any) -> PPO:
    """Return a trained model, which is saved as well."""
    keywords["backend"] = args.backend
    envs = make_vec_env(args.env_id, args.num_envs, seed=seed, env_kwargs=keywords)
    envs = VecNormalize(envs, norm_obs=False)  # of rewards alone, so the policy needs none of it
    sizes = {"n_steps": 64, "batch_size": 16 * args.num_envs, "n_epochs": 8}
    model = PPO("MlpPolicy", envs, learning_rate=1e-3, **sizes, seed=seed, device="cpu")
    model.learn(args.total_steps, progress_bar=True)
    model.save(path)
    envs.close()
    return model


def play(envs: VectorEnv, model: PPO, args: Args, leaves: np.ndarray) -> np.ndarray:
    """Return the sum of rewards of each environment's first episode, with these leaves."""
    options = {"randomization": {args.leaf: leaves}}
    obs, _ = envs.reset(seed=args.seeds[0], options=options)
    returns, running = np.zeros(envs.num_envs), np.ones(envs.num_envs, np.bool_)
    while running.any():
        actions, _ = model.predict(obs, deterministic=True)
        obs, rewards, terminated, truncated, _ = envs.step(actions)
        returns += rewards * running
        running &= ~(terminated | truncated)
    return returns


def compare(args: Args, models: dict[str, list[PPO]]) -> dict[str, pd.DataFrame]:
    """Return the mean return of each model by factor, a column for each seed."""
    factors = np.geomspace(args.low / 3, args.high * 3, args.points)
    keywords = {"backend": args.backend, "randomization_fn": make_draw(args)}
    envs = gym.make_vec(args.env_id, num_envs=args.points * args.episodes, **keywords)
    own = np.asarray(attrgetter(args.leaf)(envs.get_attr("sys")[0]))
    leaves = np.multiply.outer(np.repeat(factors, args.episodes), own)
    found = {}
    for name, group in models.items():
        returns = [play(envs, model, args, leaves).reshape(args.points, -1) for model in group]
        columns = dict(zip(args.seeds, np.mean(returns, 2), strict=True))
        found[name] = pd.DataFrame(columns, pd.Index(factors, name="factor"))
    envs.close()
    return found


def write_results(folder: Path, args: Args, found: dict[str, pd.DataFrame]) -> None:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(args.low, args.high, color="tab:gray", alpha=0.12, label="range of training")
    for name, table in found.items():
        label = f"{name} randomisation, {len(args.seeds)} seeds"
        (line,) = axes.plot(table.index, table.mean(axis=1), "o-", ms=3, label=label)
        band = table.min(axis=1), table.max(axis=1)
        axes.fill_between(table.index, *band, color=line.get_color(), alpha=0.2)
    axes.set(xscale="log", xlabel=f"factor of {args.leaf}", title=f"{args.env_id}, {args.backend}")
    axes.set_ylabel("return: mean, lowest and highest seed")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(folder / "returns.png", dpi=100)
    pd.concat(found, axis=1).to_csv(folder / "returns.csv")
    print(f"Wrote returns.csv and returns.png to {folder}")


def main(args: Args) -> None:
    torch.set_num_threads(1)  # fastest for small networks
    folder = Path(args.out or Path("runs", args.env_id.split(":")[-1], "randomization"))
    folder.mkdir(parents=True, exist_ok=True)
    models: dict[str, list[PPO]] = {"without": [], "with": []}
    for name, group in models.items():
        keywords = {"randomization_fn": make_draw(args)} if name == "with" else {}
        for seed in args.seeds:
            print(f"Training {name} randomisation, seed {seed}")
            group.append(train(args, seed, folder / f"policy_{name}_{seed}.zip", **keywords))
    found = compare(args, models)
    write_results(folder, args, found)
    for name, table in found.items():
        worst = table.mean(axis=1).min()
        print(f"{name}: mean return {table.to_numpy().mean():.1f}, worst factor {worst:.1f}")


if __name__ == "__main__":
    main(tyro.cli(Args))
