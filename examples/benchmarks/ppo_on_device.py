"""Wall clock of PPO to a fixed return on one device: gymbridge, Brax's own PPO, or SB3's.

    python examples/benchmarks/ppo_on_device.py gymbridge --device cuda --out runs/gymbridge.json
    python examples/benchmarks/ppo_on_device.py Brax --device cuda --out runs/brax.json

gymbridge is `examples/ppo.py` with torch arrays; SB3 has our numpy batch and `VecNormalize`. All
have the same networks, batches, epochs and coefficients. They differ where the libraries do: Brax
estimates advantages over pieces of a rollout and scales rewards by a constant. The clock starts
before the environments are built, so it includes compiling. It stops when the mean return of the
last 100 episodes of the training reaches the target, or at the limit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import math
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from timing import machine

SEED, LIMIT = 1, 240
Row = tuple[int, float, float]  # environment steps, seconds, mean return


class Task(NamedTuple):
    """What is trained until when."""

    backend: str
    target: float
    num_envs: int
    unroll: int  # steps of a piece of a rollout
    batch: int  # pieces in a minibatch
    minibatches: int
    epochs: int
    updates: int  # at most

    @property
    def num_steps(self) -> int:
        """Steps of each environment between two updates."""
        return self.unroll * self.batch * self.minibatches // self.num_envs

    @property
    def total_steps(self) -> int:
        """Steps of all environments in all updates."""
        return self.updates * self.num_steps * self.num_envs


TASKS = {
    "ant": Task("spring", 3000, 4096, 5, 2048, 32, 4, 300),
    "inverted_pendulum": Task("generalized", 30, 64, 8, 64, 4, 8, 20),
}
COMMON: dict[str, Any] = {"learning_rate": 3e-4, "gae_lambda": 0.95, "max_grad_norm": 0.5}
OURS = {**COMMON, "gamma": 0.97, "clip": 0.3, "entropy_coef": 1e-2, "value_coef": 0.25}
SB3 = {**COMMON, "gamma": 0.97, "clip_range": 0.3, "ent_coef": 1e-2, "vf_coef": 0.25}
BRAX = {
    **COMMON,
    "discounting": 0.97,
    "clipping_epsilon": 0.3,
    "entropy_cost": 1e-2,
    "vf_loss_coefficient": 0.5,  # of which Brax takes the half
    "reward_scaling": 10,
    "normalize_observations": True,
}


def train_gymbridge(name: str, task: Task, device: str, seconds: float) -> list[Row]:
    """Return a row for each update of `examples/ppo.py`."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import gymnasium as gym
    import torch
    from ppo import Agent, train
    from ppo_flags import Args

    torch.manual_seed(SEED)
    start = time.perf_counter()
    options: dict[str, Any] = {"backend": task.backend, "arrays": "torch", "device": device}
    envs = gym.make_vec(f"Brax/{name}-v0", num_envs=task.num_envs, **options)
    args = Args(
        seed=SEED,
        device=device,
        num_envs=task.num_envs,
        num_steps=task.num_steps,
        minibatches=task.minibatches,
        epochs=task.epochs,
        total_steps=task.total_steps,
        target_return=task.target,
        max_seconds=seconds,
        **OURS,
    )
    agent = Agent(envs).to(device)
    built = time.perf_counter() - start
    progress = train(args, envs, agent)
    return [(steps, built + taken, mean) for steps, taken, _, mean in progress]


class OverError(Exception):
    """The training of Brax has reached its target or its limit."""


def train_brax(name: str, task: Task, device: str, seconds: float) -> list[Row]:
    """Return a row for each update of Brax's PPO."""
    import jax
    from brax import envs as brax_envs
    from brax.training.agents.ppo import networks, train

    if not hasattr(jax, "device_put_replicated"):  # Brax 0.14.2 needs what JAX 0.10 has no longer
        jax.device_put_replicated = replicate  # pyright: ignore[reportAttributeAccessIssue]
    sizes = {"policy_hidden_layer_sizes": (64, 64), "value_hidden_layer_sizes": (64, 64)}
    rows: list[Row] = []
    mean, start = float("nan"), time.perf_counter()

    def note(steps: int, metrics: Any) -> None:
        nonlocal mean
        if "training/sps" not in metrics:  # of the last 100 episodes, in the midst of an update
            mean = float(metrics.get("episode/sum_reward", mean))
            return
        jax.effects_barrier()
        rows.append((steps, time.perf_counter() - start, mean))
        if mean >= task.target or rows[-1][1] >= seconds:
            raise OverError

    with contextlib.suppress(OverError):
        train.train(
            brax_envs.get_environment(name, backend=task.backend),
            num_timesteps=task.total_steps,
            num_evals=task.updates + 1,
            episode_length=1000,
            num_envs=task.num_envs,
            unroll_length=task.unroll,
            batch_size=task.batch,
            num_minibatches=task.minibatches,
            num_updates_per_batch=task.epochs,
            network_factory=partial(networks.make_ppo_networks, activation=jax.nn.tanh, **sizes),
            log_training_metrics=True,
            run_evals=False,
            progress_fn=note,
            seed=SEED,
            **BRAX,
        )
    return rows


def replicate(tree: Any, devices: list[Any]) -> Any:
    """Return arrays with a copy for each device, laid out as `jax.pmap` lays out its results."""
    import jax

    stacked = jax.tree.map(lambda leaf: jax.numpy.stack([leaf] * len(devices)), tree)
    return jax.pmap(lambda copy: copy, devices=devices)(stacked)


def train_sb3(name: str, task: Task, device: str, seconds: float) -> list[Row]:
    """Return a row for each update of Stable-Baselines3's PPO."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import VecNormalize

    from gymbridge.trainers.sb3 import make_vec_env

    rows: list[Row] = []
    start = time.perf_counter()

    class Notes(BaseCallback):
        """Notes the mean return of 100 episodes after each rollout, and ends the training."""

        def _on_step(self) -> bool:
            return not rows or (rows[-1][2] < task.target and rows[-1][1] < seconds)

        def _on_rollout_end(self) -> None:
            returns = [episode["r"] for episode in self.model.ep_info_buffer]
            mean = float(sum(returns)) / 100 if len(returns) == 100 else float("-inf")
            rows.append((self.num_timesteps, time.perf_counter() - start, mean))

    options = {"backend": task.backend, "device": device}
    envs = make_vec_env(f"Brax/{name}-v0", task.num_envs, seed=SEED, env_kwargs=options)
    model = PPO(
        "MlpPolicy",
        VecNormalize(envs, gamma=SB3["gamma"]),
        n_steps=task.num_steps,
        batch_size=task.unroll * task.batch,
        n_epochs=task.epochs,
        device=device,
        seed=SEED,
        **SB3,
    )
    model.learn(task.total_steps, callback=Notes())
    return rows


LIBRARIES = {"gymbridge": train_gymbridge, "Brax": train_brax, "SB3": train_sb3}


def main() -> None:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("library", choices=LIBRARIES, help="whose PPO")
    parser.add_argument("--task", choices=TASKS, default="ant", help="Brax's environment")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--seconds", type=float, default=LIMIT, help="limit of the training")
    parser.add_argument("--out", type=Path, required=True, help="file for the result")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")  # of other libraries, about themselves
    logging.disable(logging.WARNING)
    task = TASKS[args.task]
    rows = LIBRARIES[args.library](args.task, task, args.device, args.seconds)
    steps, seconds, mean = rows[-1]
    rows = [(*row[:2], row[2] if math.isfinite(row[2]) else None) for row in rows]
    result = {"library": args.library, "target": task.target, "progress": rows}
    args.out.write_text(json.dumps(result | {"machine": machine()}), encoding="utf-8")
    print(f"{args.library}: mean return {mean:.0f} after {seconds:.0f} s and {steps:,} steps")


if __name__ == "__main__":
    main()
