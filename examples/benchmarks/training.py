"""Wall clock of PPO to a fixed return.

`sb3_to_target` trains Stable-Baselines3's PPO on a CPU, with our `make_vec_env` and with SB3's own.
`ppo_to_target` trains `examples/ppo.py` with torch arrays, or Brax's own PPO, on one device. They
have the same networks, batches, epochs and coefficients. They differ where the libraries do: Brax
estimates advantages over pieces of a rollout and scales rewards by a constant.

The clock starts before the environments are built. It stops when the mean return of the last 100
episodes reaches the target, or at the limit.
"""

import contextlib
import json
import math
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

SEED, LIMIT = 1, 240
Row = tuple[int, float, float]  # environment steps, seconds, mean return
SB3: dict[str, Any] = {
    "n_steps": 32,
    "batch_size": 512,
    "n_epochs": 10,
    "learning_rate": 1e-3,
    "gamma": 0.98,
    "gae_lambda": 0.9,
    "device": "cpu",
}


def sb3_to_target(
    num_envs: int, _: str, *, task: str, target: float, max_steps: int = 2_000_000
) -> dict[str, Any]:
    """Return what each library took by seed. Short trainings before have the imports."""
    from stable_baselines3.common.env_util import make_vec_env as make_sb3

    from gymbridge.trainers.sb3 import make_vec_env

    makers = {
        "gymbridge": partial(make_vec_env, f"EnvPool/{task}"),
        "SB3 DummyVecEnv": partial(make_sb3, task),
    }
    for make in makers.values():
        train_sb3(partial(make, num_envs), 0, target, 1)
    trainings = [
        {"library": name, "seed": seed}
        | train_sb3(partial(make, num_envs), seed, target, max_steps)
        for seed in (1, 2, 3)
        for name, make in makers.items()
    ]
    return {"trainings": trainings}


def train_sb3(make: Any, seed: int, target: float, max_steps: int) -> dict[str, Any]:
    """Return the seconds and environment steps of a training, and whether it got there."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback

    class Target(BaseCallback):
        """Stops when the mean return of 100 episodes reaches the target."""

        is_reached = False

        def _on_step(self) -> bool:
            returns = [episode["r"] for episode in self.model.ep_info_buffer]
            self.is_reached = len(returns) == 100 and bool(sum(returns) / 100 >= target)
            return not self.is_reached

    start, callback = time.perf_counter(), Target()
    envs = make(seed=seed)
    model = PPO("MlpPolicy", envs, seed=seed, **SB3)
    model.learn(max_steps, callback=callback)
    seconds = time.perf_counter() - start
    envs.close()
    steps = model.num_timesteps
    return {"seconds": seconds, "steps": steps, "is_reached": callback.is_reached}


class Task(NamedTuple):
    """What is trained until when."""

    name: str
    backend: str
    target: float
    num_envs: int
    num_steps: int  # of each environment between two updates
    unroll: int  # steps of a piece of a rollout, of which Brax makes minibatches
    minibatches: int
    epochs: int
    total_steps: int  # at most


ANT = Task("ant", "spring", 3000, 4096, 80, 5, 32, 4, 98_304_000)
PENDULUM = Task("inverted_pendulum", "generalized", 30, 64, 32, 8, 4, 8, 40_960)
"""It tries the training out on a CPU."""

COMMON: dict[str, Any] = {"learning_rate": 3e-4, "gae_lambda": 0.95, "max_grad_norm": 0.5}
OURS = {**COMMON, "gamma": 0.97, "clip": 0.3, "entropy_coef": 1e-2, "value_coef": 0.25}
BRAX = {
    **COMMON,
    "discounting": 0.97,
    "clipping_epsilon": 0.3,
    "entropy_cost": 1e-2,
    "vf_loss_coefficient": 0.5,  # of which Brax takes the half
    "reward_scaling": 10,
    "normalize_observations": True,
}


def ppo_to_target(_: int, device: str, *, library: str, seconds: float = LIMIT) -> dict[str, Any]:
    """Return a row for each update: environment steps, seconds with compiling, mean return."""
    task = ANT if device != "cpu" else PENDULUM
    rows = {"gymbridge": train_gymbridge, "Brax": train_brax}[library](task, device, seconds)
    progress = [(*row[:2], row[2] if math.isfinite(row[2]) else None) for row in rows]
    return {"library": library, "target": task.target, "progress": progress}


def train_gymbridge(task: Task, device: str, seconds: float) -> list[Row]:
    """Train with `examples/ppo.py`."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import ppo
    import torch

    torch.manual_seed(SEED)
    start = time.perf_counter()
    same = ("num_envs", "num_steps", "minibatches", "epochs", "total_steps")
    args = ppo.Args(
        env_id=f"Brax/{task.name}-v0",
        env_kwargs=json.dumps({"backend": task.backend}),
        arrays="torch",
        seed=SEED,
        device=device,
        target_return=task.target,
        max_seconds=seconds,
        **{name: getattr(task, name) for name in same},
        **OURS,
    )
    envs = ppo.make_envs(args)
    agent = ppo.Agent(envs).to(device)
    built = time.perf_counter() - start
    progress = ppo.train(args, envs, agent)
    return [(steps, built + taken, mean) for steps, taken, _, mean in progress]


class OverError(Exception):
    """The training of Brax has reached its target or its limit."""


def train_brax(task: Task, _: str, seconds: float) -> list[Row]:
    """Train with Brax's PPO."""
    import jax
    from brax import envs as brax_envs
    from brax.training.agents.ppo import networks, train

    if not hasattr(jax, "device_put_replicated"):  # Brax 0.14.2 needs what JAX 0.10 has no longer
        jax.device_put_replicated = replicate  # pyright: ignore[reportAttributeAccessIssue]
    sizes = {"policy_hidden_layer_sizes": (64, 64), "value_hidden_layer_sizes": (64, 64)}
    rows: list[Row] = []
    mean, start = float("nan"), time.perf_counter()
    update = task.num_steps * task.num_envs

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
            brax_envs.get_environment(task.name, backend=task.backend),
            num_timesteps=task.total_steps,
            num_evals=task.total_steps // update + 1,
            episode_length=1000,
            num_envs=task.num_envs,
            unroll_length=task.unroll,
            batch_size=update // task.unroll // task.minibatches,
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
