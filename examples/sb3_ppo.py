"""Solve EnvPool's CartPole with Stable-Baselines3's PPO; a return of 475 counts as solved.

    python examples/sb3_ppo.py

The policy goes to `runs/sb3/`; `--evaluate runs/sb3/CartPole-v1_ppo.zip` plays it without training.
Only the import of `make_vec_env` differs from a script on SB3's own environments.

To copy this script, copy `sb3_returns.py` as well.
"""

import argparse
import time
from pathlib import Path


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env-id", default="EnvPool/CartPole-v1", help="id of the task")
    parser.add_argument("--total-steps", type=int, default=120_000, help="steps of training")
    parser.add_argument("--num-envs", type=int, help="size of the batch", default=8)
    parser.add_argument("--eval-episodes", type=int, help="episodes played at the end", default=20)
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
    from stable_baselines3 import PPO
    from stable_baselines3.common.evaluation import evaluate_policy

    from gymbridge.errors import GymbridgeError
    from gymbridge.trainers.sb3 import make_vec_env
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[sb3,envpool,examples]'"
    raise SystemExit(f"{error}; {install}") from None


def falling(value: float):
    """Return a schedule that falls from `value` to 0 over the training."""
    return lambda remaining: value * remaining


def train(args: argparse.Namespace) -> PPO:
    """Train and return a policy; write it, and its episodes as a table and a picture."""
    path = args.out / f"{args.env_id.rpartition('/')[2]}_ppo.zip"
    episodes = path.with_suffix("")  # folder of SB3's 0.monitor.csv
    envs = make_vec_env(args.env_id, args.num_envs, seed=args.seed, monitor_dir=str(episodes))
    model = PPO(
        "MlpPolicy",
        envs,
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        gamma=0.98,
        gae_lambda=0.8,
        learning_rate=falling(1e-3),
        clip_range=falling(0.2),
        seed=args.seed,
        device="cpu",
    )
    model.learn(args.total_steps, progress_bar=True)
    model.save(path)
    envs.close()
    print(f"Wrote {path}")
    draw_returns(episodes, args.env_id)
    return model


def main() -> None:
    args = parse_args()
    start = time.perf_counter()
    torch.set_num_threads(1)  # fastest for small networks
    model = load_model(PPO, args.evaluate) if args.evaluate else train(args)
    envs = make_vec_env(args.env_id, 10, seed=args.seed + 1000)
    check_spaces(model, envs)
    mean, deviation = evaluate_policy(model, envs, n_eval_episodes=args.eval_episodes)
    envs.close()
    seconds = time.perf_counter() - start
    print(
        f"{args.env_id}: mean return {mean:.2f} +- {deviation:.2f} over {args.eval_episodes} "
        f"episodes, {seconds:.0f} s"
    )


if __name__ == "__main__":
    try:
        main()
    except (GymbridgeError, gym.error.Error, ModuleNotFoundError) as error:
        raise SystemExit(str(error)) from None
