"""Train Stable-Baselines3's SAC on a Brax task, and print the return before and after.

    python examples/sb3_sac.py
    python examples/sb3_sac.py --evaluate runs/sb3/reacher-v0_sac.zip

Several gradient steps follow each step of the batch and take most of the time: SAC learns from few
environment steps. Episodes end only by a time limit, so what SAC learns depends on
``infos["TimeLimit.truncated"]`` and on the final observations.

To copy this script, copy `sb3_returns.py` as well.
"""

import argparse
import time
from pathlib import Path
from typing import Any


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env-id", default="Brax/reacher-v0", help="id of the task")
    parser.add_argument("--episode-steps", type=int, default=50, help="time limit")
    parser.add_argument("--total-steps", type=int, default=16_000, help="steps of training")
    parser.add_argument("--num-envs", type=int, help="size of the batch", default=16)
    parser.add_argument(
        "--gradient-steps", type=int, default=8, help="gradient steps per batch step"
    )
    parser.add_argument("--eval-episodes", type=int, help="episodes played at the end", default=32)
    parser.add_argument("--seed", type=int, default=0, help="seed of networks and environments")
    parser.add_argument("--evaluate", metavar="FILE", help="saved policy to play, no training")
    parser.add_argument(
        "--out", type=Path, default=Path("runs", "sb3"), help="folder for the policy"
    )
    args = parser.parse_args()
    if args.evaluate and not Path(args.evaluate).exists():
        parser.error(f"--evaluate: there is no file {args.evaluate}")
    return args


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

try:
    import gymnasium as gym
    import torch
    from sb3_returns import check_spaces, draw_returns, load_model
    from stable_baselines3 import SAC
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecMonitor

    from gymbridge.errors import GymbridgeError
    from gymbridge.trainers.sb3 import make_vec_env
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[sb3,brax,examples]'"
    raise SystemExit(f"{error}; {install}") from None


def evaluate(model: SAC, envs: Any, args: argparse.Namespace) -> float:
    envs.seed(args.seed + 1000)  # the same episodes each time
    return evaluate_policy(model, envs, n_eval_episodes=args.eval_episodes)[0]


def train(args: argparse.Namespace, envs: Any) -> tuple[float, float]:
    """Train a policy, write it and its returns; return the mean return before and after."""
    path = args.out / f"{args.env_id.rpartition('/')[2]}_sac.zip"
    episodes = path.with_suffix("")  # folder of SB3's 0.monitor.csv
    # Not of the episodes that are played for the mean.
    monitored = VecMonitor(envs.venv, f"{episodes}/0")
    model = SAC(
        "MlpPolicy",
        monitored,
        learning_starts=1600,
        gradient_steps=args.gradient_steps,
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
    draw_returns(episodes, args.env_id)
    after = evaluate(model, envs, args)
    monitored.close()
    return before, after


def main() -> None:
    args = parse_args()
    start = time.perf_counter()
    torch.set_num_threads(1)  # fastest for small networks
    limit = {"max_episode_steps": args.episode_steps}
    envs = make_vec_env(args.env_id, args.num_envs, seed=args.seed, env_kwargs=limit)
    if args.evaluate:
        model = load_model(SAC, args.evaluate)
        check_spaces(model, envs)
        mean = evaluate(model, envs, args)
        print(f"{args.env_id}: mean return {mean:.2f} over {args.eval_episodes} episodes")
        return
    before, after = train(args, envs)
    seconds = time.perf_counter() - start
    print(f"{args.env_id}: mean return {before:.2f} before, {after:.2f} after, {seconds:.0f} s")


if __name__ == "__main__":
    try:
        main()
    except (GymbridgeError, gym.error.Error, ModuleNotFoundError) as error:
        raise SystemExit(str(error)) from None
