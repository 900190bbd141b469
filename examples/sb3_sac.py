"""Train Stable-Baselines3's SAC on a Brax task, and print the return before and after.

    python examples/sb3_sac.py
    gymbridge rollout Brax/reacher-v0 --policy runs/sb3/reacher-v0_sac.zip --steps 50

Several gradient steps follow each step of the batch and take most of the time: SAC learns from few
environment steps. Episodes end only by a time limit, so what SAC learns depends on
``infos["TimeLimit.truncated"]`` and on the final observations. Beside the policy there is a folder
with the episodes of the training, which SB3's `plot_results` draws.

Needs: pip install '.[sb3,brax,examples]'.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
import tyro
from stable_baselines3 import SAC
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

from gymbridge.trainers.sb3 import make_vec_env


@dataclass
class Args:
    """Train SAC of Stable-Baselines3, save the policy and evaluate it."""

    env_id: str = "Brax/reacher-v0"
    """Id of the task."""
    episode_steps: int = 50
    """Time limit."""
    total_steps: int = 16_000
    """Steps of training."""
    num_envs: int = 16
    """Environments stepped at once."""
    eval_episodes: int = 32
    """Episodes played before and after."""
    seed: int = 0
    """Seed of networks and environments."""
    out: Path = Path("runs/sb3")
    """Folder for the policy."""


def evaluate(model: SAC, envs: VecEnv, args: Args) -> float:
    envs.seed(args.seed + 1000)  # the same episodes each time
    return evaluate_policy(model, envs, n_eval_episodes=args.eval_episodes)[0]


def main(args: Args) -> None:
    torch.set_num_threads(1)  # fastest for small networks
    limit = {"max_episode_steps": args.episode_steps}
    envs = make_vec_env(args.env_id, args.num_envs, seed=args.seed, env_kwargs=limit)
    path = args.out / f"{args.env_id.rpartition('/')[2]}_sac.zip"
    # The file 0.monitor.csv has no episodes that are played for the mean.
    monitored = VecMonitor(envs.venv, str(path.with_suffix("") / "0"))
    model = SAC(
        "MlpPolicy",
        monitored,
        learning_starts=1600,
        gradient_steps=8,  # for each step of the batch
        gamma=0.95,
        learning_rate=1e-3,
        policy_kwargs={"net_arch": [128, 128]},
        seed=args.seed,
        device="cpu",
    )
    before = evaluate(model, envs, args)
    model.learn(args.total_steps, progress_bar=True)
    model.save(path)
    print(f"Wrote {path}")
    after = evaluate(model, envs, args)
    monitored.close()
    print(f"{args.env_id}: mean return {before:.2f} before, {after:.2f} after")


if __name__ == "__main__":
    main(tyro.cli(Args))
