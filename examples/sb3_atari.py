"""Train Stable-Baselines3's PPO on EnvPool's Pong, from images.

    python examples/sb3_atari.py
    gymbridge rollout EnvPool/Pong-v5 --policy runs/sb3/Pong-v5_ppo.zip --video pong.mp4

`make_atari_env` does what SB3's own does: rewards are clipped, lost lives end episodes, and the log
has the scores of whole games. EnvPool resizes, stacks and skips frames in C++. Observations are
(4, 84, 84) uint8, so SB3 needs no `VecFrameStack`. Pong needs millions of steps, which take hours
on a CPU. `--device cuda` puts the network on a GPU.

Needs: pip install '.[sb3,envpool,examples]'.
"""

from dataclasses import dataclass
from pathlib import Path

import tyro
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

from gymbridge.trainers.sb3 import make_atari_env


@dataclass
class Args:
    """Train PPO of Stable-Baselines3 on an Atari game, save the policy and evaluate it."""

    env_id: str = "EnvPool/Pong-v5"
    """An Atari game."""
    total_steps: int = 5_000_000
    """Steps of training."""
    num_envs: int = 8
    """Games played at once."""
    num_steps: int = 128
    """Steps of each game between two updates."""
    eval_episodes: int = 8
    """Games played at the end."""
    max_episode_steps: int = 27_000
    """Time limit."""
    seed: int = 0
    """Seed of network and games."""
    device: str = "cpu"
    """Device of the network."""
    out: Path = Path("runs/sb3")
    """Folder for the policy."""


def main(args: Args) -> None:
    games = {"stack_num": 4, "max_episode_steps": args.max_episode_steps}
    path = args.out / f"{args.env_id.rpartition('/')[2]}_ppo.zip"
    keywords = {"env_kwargs": games, "monitor_dir": str(path.with_suffix(""))}
    envs = make_atari_env(args.env_id, args.num_envs, seed=args.seed, **keywords)
    model = PPO(  # the hyperparameters are SB3's own for Atari
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
    print(f"Wrote {path}")
    envs.close()
    count = min(args.eval_episodes, 8)
    envs = make_atari_env(args.env_id, count, seed=args.seed + 1000, env_kwargs=games)
    mean, deviation = evaluate_policy(model, envs, n_eval_episodes=args.eval_episodes)
    envs.close()
    print(
        f"{args.env_id}: mean score {mean:.2f} +- {deviation:.2f} over {args.eval_episodes} games"
    )


if __name__ == "__main__":
    main(tyro.cli(Args))
