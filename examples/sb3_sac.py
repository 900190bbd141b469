"""Train Stable-Baselines3's SAC on a Brax task; the return before and after is printed.

    python examples/sb3_sac.py

One step of the batch is followed by several gradient steps, which take most of the time: SAC
learns from few environment steps. Episodes end by a time limit alone, so what SAC learns depends on
``infos["TimeLimit.truncated"]`` and on the true last observations.
"""

import argparse
import time
from typing import Any

import torch
from stable_baselines3 import SAC
from stable_baselines3.common.evaluation import evaluate_policy

from gymbridge.trainers.sb3 import make_vec_env


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env-id", default="Brax/reacher-v0")
    parser.add_argument("--episode-steps", type=int, default=50, help="time limit")
    parser.add_argument("--total-steps", type=int, default=16_000)
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--gradient-steps", type=int, default=8, help="per step of the batch")
    parser.add_argument("--eval-episodes", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def evaluate(model: SAC, envs: Any, args: argparse.Namespace) -> float:
    envs.seed(args.seed + 1000)  # the same episodes each time
    return evaluate_policy(model, envs, n_eval_episodes=args.eval_episodes)[0]


def main() -> None:
    args = parse_args()
    start = time.perf_counter()
    torch.set_num_threads(1)  # fastest for small networks
    limit = {"max_episode_steps": args.episode_steps}
    model = SAC(
        "MlpPolicy",
        make_vec_env(args.env_id, args.num_envs, seed=args.seed, env_kwargs=limit),
        learning_starts=1600,
        gradient_steps=args.gradient_steps,
        gamma=0.95,
        learning_rate=1e-3,
        policy_kwargs={"net_arch": [128, 128]},
        seed=args.seed,
        device="cpu",
    )
    before = evaluate(model, model.env, args)
    model.learn(args.total_steps, progress_bar=True)
    after = evaluate(model, model.env, args)
    seconds = time.perf_counter() - start
    print(f"{args.env_id}: mean return {before:.2f} before, {after:.2f} after, {seconds:.0f} s")


if __name__ == "__main__":
    main()
