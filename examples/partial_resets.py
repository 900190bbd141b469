"""Play one episode per seed in Disabled mode, where an ended environment waits for its reset.

    python examples/partial_resets.py --episodes 64

The environments share a fixed set of seeds. When an episode ends, a `reset` with a `reset_mask`
begins the next seed in that environment; the others continue. Every seed is played to the end of
its episode and counted once. (Short episodes end first, so a mean over the first 64 episodes to end
would be too low.) When no seed is left, `step_some` does not step the environment any more. Brax
and Playground take seeds in a partial reset; EnvPool does not.
"""

import argparse
import logging
from pathlib import Path


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env-id", default="Brax/inverted_pendulum-v0", help="Brax or Playground")
    parser.add_argument("--num-envs", type=int, default=8, help="environments stepped at once")
    parser.add_argument("--episodes", type=int, default=64, help="seeds to play, from 0 on")
    parser.add_argument("--noise", type=float, default=1.0, help="scale of the random actions")
    parser.add_argument("--max-episode-steps", type=int, default=200, help="time limit")
    parser.add_argument("--out", type=Path, default=Path("runs", "partial_resets"), help="folder")
    return parser.parse_args()


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

try:
    import gymnasium as gym
    import numpy as np
    from gymnasium.vector import VectorEnv
    from matplotlib.figure import Figure
    from tqdm import tqdm

    import gymbridge  # noqa: F401 (registers the ids)
    from gymbridge.errors import GymbridgeError
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[brax,examples]'"
    raise SystemExit(f"{error}; {install}") from None


def play(envs: VectorEnv, args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Return the return and the length of the episode of each seed, (episodes,) both."""
    returns, lengths = np.zeros(args.episodes), np.zeros(args.episodes, np.int64)
    seeds, space = np.arange(envs.num_envs), envs.single_action_space
    rngs = [np.random.default_rng(seed) for seed in range(args.episodes)]
    envs.reset(seed=seeds.tolist())
    next_seed, running = envs.num_envs, np.ones(envs.num_envs, np.bool_)
    layout = "{l_bar}{bar}| {n_fmt} of {total_fmt} episodes, {elapsed}"  # no estimate: it compiles
    with tqdm(total=args.episodes, bar_format=layout) as bar:
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
                given = [
                    int(seed) if new else None for seed, new in zip(seeds, begins, strict=True)
                ]
                envs.reset(seed=given, options={"reset_mask": begins})
    return returns, lengths


def main() -> None:
    args = parse_args()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("gymbridge").setLevel(logging.INFO)  # shows when physics compiles
    num_envs = min(args.num_envs, args.episodes)
    limit = {"max_episode_steps": args.max_episode_steps, "autoreset_mode": "Disabled"}
    envs = gym.make_vec(args.env_id, num_envs=num_envs, **limit)
    returns, lengths = play(envs, args)
    envs.close()
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(title=args.env_id, xlabel="steps", ylabel="episodes")
    axes.hist(lengths, bins=np.arange(0.5, lengths.max() + 1.5))
    args.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.out / "lengths.png", dpi=100)
    table = np.stack([np.arange(args.episodes), returns, lengths], 1)
    header = "seed,return,length"
    np.savetxt(args.out / "episodes.csv", table, "%.6g", ",", header=header, comments="")
    print(f"Wrote episodes.csv and lengths.png to {args.out}")
    print(f"{args.env_id}: mean return {returns.mean():.2f} over {args.episodes} episodes")


if __name__ == "__main__":
    try:
        main()
    except (GymbridgeError, gym.error.Error, ModuleNotFoundError) as error:
        raise SystemExit(str(error)) from None
