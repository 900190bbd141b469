"""Train RLlib's PPO with env runners of a Ray cluster.

    python examples/rllib_ppo.py                     # on this machine
    python examples/rllib_ppo.py --address auto      # on the cluster that this machine is part of
    python examples/rllib_ppo.py --evaluate runs/rllib/EnvPool/CartPole-v1

Training stops when the mean return of recent episodes reaches `--target`. The checkpoint, policy
included, goes to `runs/rllib/<env id>/`, and `--evaluate` plays it again.

RLlib pins an older Gymnasium, so use a virtual environment.

Needs: pip install '.[rllib,envpool,examples]'.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import ray
import tyro
from ray.rllib.algorithms.ppo import PPOConfig
from tqdm import tqdm

from gymbridge.trainers.rllib import BridgeEnvRunner


@dataclass
class Args:
    """Train PPO of RLlib, or play a checkpoint."""

    env_id: str = "EnvPool/CartPole-v1"
    """Id of the task."""
    env_config: str = "{}"
    """Keywords of the environment, as JSON."""
    target: float = 450
    """Mean return to stop at."""
    total_steps: int = 400_000
    """Maximum steps."""
    num_env_runners: int = 2
    """Env runners, each a process."""
    num_envs: int = 16
    """Environments of each env runner."""
    seed: int = 0
    """Seed of networks and environments."""
    address: str = "local"
    """Address of a Ray cluster; local starts one here."""
    out: str = ""
    """Folder, by default runs/rllib/<env id>."""
    evaluate: Path | None = None
    """Checkpoint to play, without training."""
    eval_episodes: int = 16
    """Episodes that --evaluate plays."""


def make_config(args: Args) -> PPOConfig:
    config = (
        PPOConfig()
        .environment(f"gymbridge:{args.env_id}", env_config=json.loads(args.env_config))
        .env_runners(
            env_runner_cls=BridgeEnvRunner,
            gym_env_vectorize_mode="vector_entry_point",
            num_env_runners=args.num_env_runners,
            num_envs_per_env_runner=args.num_envs,
            sample_timeout_s=600,  # the first sample waits for Brax's compiler
        )
        .training(
            train_batch_size_per_learner=2048,
            minibatch_size=256,
            num_epochs=10,
            lr=1e-3,
            gamma=0.98,
            lambda_=0.9,
            vf_loss_coeff=0.01,
        )
        .rl_module(model_config={"fcnet_hiddens": [64, 64], "vf_share_layers": False})
        .debugging(seed=args.seed, log_level="ERROR")
    )
    if args.evaluate:  # greedily, in this process: another could wait for a core forever
        config.env_runners(num_env_runners=0)
        config.evaluation(
            evaluation_interval=1,
            evaluation_duration=args.eval_episodes,
            evaluation_config={"explore": False},
        )
    return config


def train(args: Args, algorithm: Any) -> None:
    start, mean, steps, progress = time.perf_counter(), float("nan"), 0, []
    with tqdm(total=args.total_steps, unit="step") as bar:
        while steps < args.total_steps and not mean >= args.target:
            found = algorithm.train()["env_runners"]
            mean = found.get("episode_return_mean", mean)
            steps = int(found["num_env_steps_sampled_lifetime"])
            bar.update(steps - bar.n)
            bar.set_postfix(mean_return=f"{mean:.1f}")
            progress.append((steps, time.perf_counter() - start, mean))
    folder = Path(args.out or Path("runs", "rllib", args.env_id)).resolve()
    algorithm.save_to_path(str(folder))
    header = "env_steps,seconds,mean_return"
    np.savetxt(folder / "progress.csv", progress, "%.10g", ",", header=header, comments="")
    print(f"Wrote a checkpoint and progress.csv to {folder}")
    print(f"{args.env_id}: mean return {mean:.2f} after {steps} steps, {progress[-1][1]:.0f} s")


def main(args: Args) -> None:
    gym.spec(args.env_id)  # raises for an unknown id before Ray starts
    ray.init(address=args.address, log_to_driver=False)
    algorithm = make_config(args).build_algo()
    if args.evaluate:
        algorithm.restore_from_path(str(args.evaluate.resolve()))
        mean = algorithm.evaluate()["env_runners"]["episode_return_mean"]
        print(f"{args.env_id}: mean return {mean:.2f} over {args.eval_episodes} episodes")
    else:
        train(args, algorithm)
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main(tyro.cli(Args))
