"""Solve EnvPool's CartPole with Stable-Baselines3's PPO; a return of 475 counts as solved.

    python examples/sb3_ppo.py
    gymbridge rollout EnvPool/CartPole-v1 --policy runs/sb3/CartPole-v1_ppo.zip

Only the import of `make_vec_env` differs from a script on SB3's own environments. Beside the policy
there is a folder with the episodes of the training, which SB3's `plot_results` draws.

Needs: pip install '.[sb3,envpool,examples]'.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

from gymbridge.trainers.sb3 import make_vec_env


@dataclass
class Args:
    """Train PPO of Stable-Baselines3, save the policy and evaluate it."""

    env_id: str = "EnvPool/CartPole-v1"
    """Id of the task."""
    total_steps: int = 120_000
    """Steps of training."""
    num_envs: int = 8
    """Environments stepped at once."""
    eval_episodes: int = 20
    """Episodes played at the end."""
    seed: int = 0
    """Seed of networks and environments."""
    out: Path = Path("runs/sb3")
    """Folder for the policy."""


def main(args: Args) -> None:
    start = time.perf_counter()
    torch.set_num_threads(1)  # fastest for small networks
    path = args.out / f"{args.env_id.rpartition('/')[2]}_ppo.zip"
    episodes = str(path.with_suffix(""))  # folder of SB3's 0.monitor.csv
    envs = make_vec_env(args.env_id, args.num_envs, seed=args.seed, monitor_dir=episodes)
    model = PPO(
        "MlpPolicy",
        envs,
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        gamma=0.98,
        gae_lambda=0.8,
        learning_rate=lambda remaining: 1e-3 * remaining,
        clip_range=lambda remaining: 0.2 * remaining,
        seed=args.seed,
        device="cpu",
    )
    model.learn(args.total_steps, progress_bar=True)
    model.save(path)
    print(f"Wrote {path}")
    envs.close()
    envs = make_vec_env(args.env_id, 10, seed=args.seed + 1000)
    mean, deviation = evaluate_policy(model, envs, n_eval_episodes=args.eval_episodes)
    envs.close()
    print(
        f"{args.env_id}: mean return {mean:.2f} +- {deviation:.2f} over {args.eval_episodes} "
        f"episodes, {time.perf_counter() - start:.0f} s"
    )


if __name__ == "__main__":
    main(tyro.cli(Args))
