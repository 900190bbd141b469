"""Play one episode per seed in Disabled mode, where an ended environment waits for its reset.

    python examples/partial_resets.py --episodes 64

The environments share a fixed set of seeds. When an episode ends, a `reset` with a `reset_mask`
begins the next seed in that environment; the others continue. Every seed is played to the end of
its episode and counted once. (Short episodes end first, so a mean over the first 64 episodes to end
would be too low.) When no seed is left, `step_some` does not step the environment any more. Brax
and Playground take seeds in a partial reset; EnvPool does not.

Needs: pip install '.[brax,examples]'.
"""

from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np
import tyro
from gymnasium.vector import VectorEnv
from tqdm import tqdm

import gymbridge  # noqa: F401 (registers the ids)


@dataclass
class Args:
    """Play random actions, one episode per seed."""

    env_id: str = "Brax/inverted_pendulum-v0"
    """Id of Brax or Playground."""
    num_envs: int = 8
    """Environments stepped at once."""
    episodes: int = 64
    """Seeds to play, from 0 on."""
    noise: float = 1.0
    """Scale of the random actions."""
    max_episode_steps: int = 200
    """Time limit."""
    out: Path = Path("runs/partial_resets")
    """Folder for the picture of the lengths."""


def play(envs: VectorEnv, args: Args) -> tuple[np.ndarray, np.ndarray]:
    """Return the return and the length of the episode of each seed, (episodes,) both."""
    returns, lengths = np.zeros(args.episodes), np.zeros(args.episodes, np.int64)
    seeds, space = np.arange(envs.num_envs), envs.single_action_space
    rngs = [np.random.default_rng(seed) for seed in range(args.episodes)]
    envs.reset(seed=seeds.tolist())
    next_seed, running = envs.num_envs, np.ones(envs.num_envs, np.bool_)
    with tqdm(total=args.episodes, unit=" episodes") as bar:
        while running.any():
            drawn = np.stack([rngs[seed].uniform(space.low, space.high) for seed in seeds])
            actions = (args.noise * drawn).astype(space.dtype)
            _, rewards, terminations, truncations, _ = envs.step_some(actions, running)
            returns[seeds[running]] += rewards[running]
            lengths[seeds[running]] += 1
            ended = running & (terminations | truncations)
            bar.update(int(ended.sum()))
            begins = ended & (next_seed + ended.cumsum() <= args.episodes)
            running &= ~ended | begins  # where no seed is left, the environment is held
            if begins.any():
                seeds[begins] = next_seed + np.arange(begins.sum())
                next_seed += int(begins.sum())
                given = np.where(begins, seeds, None).tolist()
                envs.reset(seed=given, options={"reset_mask": begins})
    return returns, lengths


def main(args: Args) -> None:
    num_envs = min(args.num_envs, args.episodes)
    limit = {"max_episode_steps": args.max_episode_steps, "autoreset_mode": "Disabled"}
    envs = gym.make_vec(args.env_id, num_envs=num_envs, **limit)
    returns, lengths = play(envs, args)
    envs.close()
    plt.hist(lengths, bins=np.arange(0.5, lengths.max() + 1.5))
    plt.title(args.env_id)
    plt.xlabel("steps")
    plt.ylabel("episodes")
    args.out.mkdir(parents=True, exist_ok=True)
    plt.savefig(args.out / "lengths.png")
    print(f"Wrote lengths.png to {args.out}")
    print(f"{args.env_id}: mean return {returns.mean():.2f} over {args.episodes} episodes")


if __name__ == "__main__":
    main(tyro.cli(Args))
