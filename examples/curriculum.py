"""Swing a pendulum up with PPO, from ever lower starts and from the lowest alone.

    python examples/curriculum.py

Needs: pip install '.[jax,sb3,examples]'.

The only reward comes when the pendulum stands still upright. The level is the angle at which an
episode begins, away from upright. With the curriculum it rises by each success and falls by each
failure, in each environment by itself, and it outlives the episode because it is a carried value.
Without, each episode begins at the last level, where the pendulum hangs. Tests at the last level
show what both learn. Curves, picture and policies go to `runs/curriculum/`.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import torch
import tyro
from gymnasium.spaces import Box
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize
from tqdm import trange

from gymbridge import JaxEnv, JaxVectorEnv
from gymbridge.trainers.sb3 import Sb3VecEnv


@dataclass
class Args:
    """Swing a pendulum up with PPO, from ever lower starts and from the lowest alone."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """One for each training."""
    total_steps: int = 300_000
    """Steps of each training."""
    num_envs: int = 64
    """Environments stepped at once."""
    episodes: int = 256
    """Episodes of each test."""
    test_updates: int = 5
    """Updates between two tests."""
    out: Path = Path("runs", "curriculum")
    """Folder for curves, picture and policies."""


FIRST, LAST = 0.2, np.pi
"""Levels, in radians from upright."""


class SwingUp(JaxEnv):
    """A pendulum with a weak motor, which has to stand still upright within 150 steps.

    A success adds `rise` to the level, and a failure takes off 0.3 of it.
    """

    observation_space = Box(-np.inf, np.inf, (3,), "float32")
    action_space = Box(-1, 1, (1,), "float32")
    carried: ClassVar = {"level": Box(0, 4, (), "float32")}
    limit, dt, gravity, torque, rise = 150, 0.05, 10.0, 3.0, 0.15

    def reset(self, key: Any, level: Any = FIRST) -> tuple[Any, Any, dict[str, Any]]:
        """Begin at the level's angle, on either side, with a small velocity."""
        level, (side, push) = jnp.asarray(level), jax.random.split(key)
        angle = jnp.where(jax.random.bernoulli(side), level, -level)
        velocity = jax.random.uniform(push, minval=-0.3, maxval=0.3)
        state = {"angle": angle, "velocity": velocity, "steps": jnp.zeros(()), "level": level}
        return state, observe(state), {"level": level}

    def step(self, key: Any, state: Any, action: Any) -> tuple[Any, ...]:
        """Push the pendulum. At the end of an episode the info has the level of the next one."""
        force = self.gravity * jnp.sin(state["angle"]) + self.torque * action[0]
        velocity = state["velocity"] + self.dt * force
        angle, steps = state["angle"] + self.dt * velocity, state["steps"] + 1
        state = {**state, "angle": angle, "velocity": velocity, "steps": steps}
        success = (jnp.cos(angle) > 0.98) & (jnp.abs(velocity) < 0.5)
        failure = ~success & (steps >= self.limit)
        change = self.rise * jnp.where(success, 1.0, jnp.where(failure, -0.3, 0.0))
        level = jnp.clip(state["level"] + change, FIRST, LAST)
        return state, observe(state), success - 0.001, success, failure, {"level": level}


class Hanging(SwingUp):
    """The same without a curriculum: each episode begins at the last level."""

    rise = 0.0

    def reset(self, key: Any, level: Any = LAST) -> tuple[Any, Any, dict[str, Any]]:
        return super().reset(key, level)


def observe(state: dict[str, Any]) -> Any:
    return jnp.stack([jnp.cos(state["angle"]), jnp.sin(state["angle"]), state["velocity"]])


def make_model(env: JaxEnv, args: Args, seed: int) -> PPO:
    envs = Sb3VecEnv(JaxVectorEnv(env, args.num_envs, autoreset_mode="SameStep"))
    envs = VecNormalize(envs, norm_obs=False)  # of rewards alone, so the policy needs none of it
    sizes = {"n_steps": 64, "batch_size": 16 * args.num_envs, "n_epochs": 10}
    return PPO("MlpPolicy", envs, learning_rate=2e-3, **sizes, seed=seed, device="cpu")


def train(args: Args, name: str, seed: int, test_envs: JaxVectorEnv) -> list[dict[str, float]]:
    """Train and save a policy; return what it did in each test at the last level."""
    model, curve = make_model(SwingUp() if name == "with" else Hanging(), args, seed), []
    size = model.n_steps * args.num_envs * args.test_updates
    for _ in (bar := trange(-(-args.total_steps // size), desc=f"{name}, seed {seed}")):
        model.learn(size, reset_num_timesteps=False)
        curve.append({"env_steps": model.num_timesteps, **play(test_envs, model)})
        bar.set_postfix_str(f"success {curve[-1]['success']:.2f}", refresh=False)
    model.save(args.out / f"policy_{name}_{seed}.zip")
    return curve


def play(envs: JaxVectorEnv, model: PPO) -> dict[str, float]:
    """Return what a policy did in the first episode of each environment."""
    obs, _ = envs.reset(seed=1000)
    running, succeeded, returns = np.ones((3, envs.num_envs)) * [[1], [0], [0]]
    while running.any():
        actions, _ = model.predict(obs, deterministic=True)
        obs, rewards, terminated, truncated, _ = envs.step(actions)
        succeeded += terminated * running
        returns += rewards * running
        running *= ~(terminated | truncated)
    return {"success": succeeded.mean(), "mean_return": returns.mean()}


def write_results(folder: Path, curves: dict[str, dict[int, list[dict[str, float]]]]) -> None:
    """Write the tests of each training, and a picture with a line for each seed."""
    (folder / "curves.json").write_text(json.dumps(curves, indent=1))
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot(xlabel="environment steps", ylabel="successes at the last level")
    for color, (name, found) in zip(("tab:orange", "tab:blue"), curves.items(), strict=True):
        for index, curve in enumerate(found.values()):
            label = None if index else f"{name} curriculum, {len(found)} seeds"
            columns = [[row[key] for row in curve] for key in ("env_steps", "success")]
            axes.plot(*columns, color=color, label=label)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(folder / "curves.png", dpi=100)
    print(f"Wrote curves.json and curves.png to {folder}")


def main(args: Args) -> None:
    torch.set_num_threads(1)  # fastest for small networks
    test_envs = JaxVectorEnv(Hanging(), args.episodes)
    args.out.mkdir(parents=True, exist_ok=True)
    curves: dict[str, dict[int, Any]] = {"with": {}, "without": {}}
    for seed in args.seeds:
        for name, found in curves.items():
            found[seed] = train(args, name, seed, test_envs)
    write_results(args.out, curves)
    for name, found in curves.items():
        for seed, curve in found.items():
            texts = "successes {success:.1%}, mean return {mean_return:.3f}".format(**curve[-1])
            print(f"{name} curriculum, seed {seed}: {texts}")


if __name__ == "__main__":
    main(tyro.cli(Args))
