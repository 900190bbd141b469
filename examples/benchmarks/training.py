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
from typing import Any

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


NUM_UPDATES, UNROLL = 300, 5
"""At most; and the steps of a piece of a rollout, of which Brax makes minibatches."""

LOSS = {"learning_rate": 3e-4, "gamma": 0.97, "clip": 0.3, "entropy_coef": 1e-2, "value_coef": 0.25}
SIZES = {"num_envs": 4096, "num_steps": 80, "minibatches": 32, "epochs": 4}
ANT = {"env_id": "Brax/ant-v0", "env_kwargs": '{"backend": "spring"}', "target_return": 3000}
PENDULUM = {"num_steps": 40, "target_return": 30}
"""Arguments of `examples/ppo.py`; the last one tries the training out on a CPU."""


def ppo_to_target(_: int, device: str, *, library: str, seconds: float = 240) -> dict[str, Any]:
    """Return a row for each update: environment steps, seconds with compiling, mean return."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import ppo

    task: dict[str, Any] = ANT | SIZES if device != "cpu" else PENDULUM
    args = ppo.Args(arrays="torch", device=device, max_seconds=seconds, **LOSS, **task)
    args.total_steps = NUM_UPDATES * args.num_envs * args.num_steps
    rows = {"gymbridge": train_gymbridge, "Brax": train_brax}[library](args)
    progress = [(*row[:2], row[2] if math.isfinite(row[2]) else None) for row in rows]
    return {"library": library, "target": args.target_return, "progress": progress}


def train_gymbridge(args: Any) -> list[Row]:
    """Train with `examples/ppo.py`."""
    import ppo
    import torch

    torch.manual_seed(args.seed)
    start = time.perf_counter()
    envs = ppo.make_envs(args)
    agent = ppo.Agent(envs).to(args.device)
    built = time.perf_counter() - start
    progress = ppo.train(args, envs, agent)
    return [(steps, built + taken, mean) for steps, taken, _, mean in progress]


class OverError(Exception):
    """The training of Brax has reached its target or its limit."""


def train_brax(args: Any) -> list[Row]:
    """Train with Brax's PPO."""
    import jax
    from brax import envs as brax_envs
    from brax.training.agents.ppo import networks, train

    if not hasattr(jax, "device_put_replicated"):  # Brax 0.14.2 needs what JAX 0.10 has no longer
        jax.device_put_replicated = replicate  # pyright: ignore[reportAttributeAccessIssue]
    sizes = {"policy_hidden_layer_sizes": (64, 64), "value_hidden_layer_sizes": (64, 64)}
    rows: list[Row] = []
    mean, start = float("nan"), time.perf_counter()
    update = args.num_steps * args.num_envs

    def note(steps: int, metrics: Any) -> None:
        nonlocal mean
        if "training/sps" not in metrics:  # of the last 100 episodes, in the midst of an update
            mean = float(metrics.get("episode/sum_reward", mean))
            return
        jax.effects_barrier()
        rows.append((steps, time.perf_counter() - start, mean))
        if mean >= args.target_return or rows[-1][1] >= args.max_seconds:
            raise OverError

    name = args.env_id.removeprefix("Brax/").removesuffix("-v0")
    with contextlib.suppress(OverError):
        train.train(
            brax_envs.get_environment(name, **json.loads(args.env_kwargs)),
            num_timesteps=args.total_steps,
            num_evals=NUM_UPDATES + 1,
            episode_length=1000,
            num_envs=args.num_envs,
            unroll_length=UNROLL,
            batch_size=update // UNROLL // args.minibatches,
            num_minibatches=args.minibatches,
            num_updates_per_batch=args.epochs,
            learning_rate=args.learning_rate,
            discounting=args.gamma,
            gae_lambda=args.gae_lambda,
            clipping_epsilon=args.clip,
            entropy_cost=args.entropy_coef,
            vf_loss_coefficient=2 * args.value_coef,  # of which Brax takes the half
            max_grad_norm=args.max_grad_norm,
            reward_scaling=10,
            normalize_observations=True,
            network_factory=partial(networks.make_ppo_networks, activation=jax.nn.tanh, **sizes),
            log_training_metrics=True,
            run_evals=False,
            progress_fn=note,
            seed=args.seed,
        )
    return rows


def replicate(tree: Any, devices: list[Any]) -> Any:
    """Return arrays with a copy for each device, laid out as `jax.pmap` lays out its results."""
    import jax

    stacked = jax.tree.map(lambda leaf: jax.numpy.stack([leaf] * len(devices)), tree)
    return jax.pmap(lambda copy: copy, devices=devices)(stacked)
