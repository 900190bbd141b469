"""Train Stable-Baselines3's PPO on EnvPool's Pong, from images.

    python examples/sb3_atari.py
    python examples/sb3_atari.py --evaluate runs/sb3/Pong-v5_ppo.zip
    python examples/record_video.py --env-id EnvPool/Pong-v5 --policy runs/sb3/Pong-v5_ppo.zip

`make_atari_env` does what SB3's own does: rewards are clipped, lost lives end episodes, and the log
has the scores of whole games. EnvPool resizes, stacks and skips frames in C++. Observations are
(4, 84, 84) uint8, so SB3 needs no `VecFrameStack`. Pong needs millions of steps, which take hours
on a CPU. `--device cuda` puts the network on a GPU.

To copy this script, copy `sb3_returns.py` as well.
"""

import argparse
from pathlib import Path


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env-id", default="EnvPool/Pong-v5", help="an Atari game")
    parser.add_argument("--total-steps", type=int, default=5_000_000, help="steps of training")
    parser.add_argument("--num-envs", type=int, default=8, help="games played at once")
    parser.add_argument("--num-steps", type=int, default=128, help="steps per env between updates")
    parser.add_argument("--eval-episodes", type=int, default=8, help="games played at the end")
    parser.add_argument("--max-episode-steps", type=int, default=27_000, help="time limit")
    parser.add_argument("--seed", type=int, default=0, help="seed of network and games")
    parser.add_argument("--device", default="cpu", help="device of the network")
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
    from gymbridge.trainers.sb3 import make_atari_env
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[sb3,envpool,examples]'"
    raise SystemExit(f"{error}; {install}") from None


def train(args: argparse.Namespace, games: dict[str, int]) -> PPO:
    """Train, save and return a policy; the hyperparameters are SB3's own for Atari."""
    path = args.out / f"{args.env_id.rpartition('/')[2]}_ppo.zip"
    episodes = path.with_suffix("")  # folder of SB3's 0.monitor.csv
    keywords = {"env_kwargs": games, "monitor_dir": str(episodes)}
    envs = make_atari_env(args.env_id, args.num_envs, seed=args.seed, **keywords)
    model = PPO(
        "CnnPolicy",
        envs,
        n_steps=args.num_steps,
        batch_size=256,
        n_epochs=4,
        learning_rate=lambda remaining: 2.5e-4 * remaining,
        clip_range=lambda remaining: 0.1 * remaining,
        ent_coef=0.01,
        seed=args.seed,
        device=args.device,
    )
    model.learn(args.total_steps, progress_bar=True)
    model.save(path)
    envs.close()
    print(f"Wrote {path}")
    draw_returns(episodes, args.env_id)
    return model


def check_device(name: str) -> None:
    """Exit if torch does not have the device, where Stable-Baselines3 would take the CPU."""
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise SystemExit(f"--device: {str(error).partition(chr(10))[0]}") from None


def main() -> None:
    args = parse_args()
    check_device(args.device)
    games = {"stack_num": 4, "max_episode_steps": args.max_episode_steps}
    model = load_model(PPO, args.evaluate, args.device) if args.evaluate else train(args, games)
    num_envs = min(args.eval_episodes, 8)
    envs = make_atari_env(args.env_id, num_envs, seed=args.seed + 1000, env_kwargs=games)
    check_spaces(model, envs)
    mean, deviation = evaluate_policy(model, envs, n_eval_episodes=args.eval_episodes)
    envs.close()
    count = f"over {args.eval_episodes} games"
    print(f"{args.env_id}: mean score {mean:.2f} +- {deviation:.2f} {count}")


if __name__ == "__main__":
    try:
        main()
    except (GymbridgeError, gym.error.Error, ModuleNotFoundError) as error:
        raise SystemExit(str(error)) from None
