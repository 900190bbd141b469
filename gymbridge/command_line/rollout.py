"""``gymbridge rollout``: episodes of a policy, their returns, and a video of them."""

from __future__ import annotations

import argparse
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import mean, pstdev
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gymbridge.command_line.batches import explain
from gymbridge.command_line.options import add_environment, add_int, at_least, read_keywords
from gymbridge.command_line.output import LOG, count, show
from gymbridge.command_line.policies import Policy, load_policy
from gymbridge.command_line.video import Draw, open_video

__all__ = ["Episode", "add_to", "run"]

_FILES = {
    "--video": "video to write, .mp4 or .gif; needs moviepy (default: none)",
    "--policy": "a .pt file of torch.jit.save, a .pt2 file of torch.export.save, or a .zip file of "
    "Stable-Baselines3; a .zip can run any code, so load only what you trust (default: random "
    "actions)",
    "--vecnormalize": "statistics that VecNormalize.save of Stable-Baselines3 wrote, for a .zip "
    "that was trained with them; the file can run any code (default: none)",
}
"""Flags for files, and their help."""


class Episode(NamedTuple):
    """The outcome of an episode."""

    episode_return: float  # the sum of its rewards
    length: int  # in steps
    end: str  # "terminated", "truncated", or "stopped" by `--steps`


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "rollout",
        help="run episodes of a policy, and write a video of them",
        description="Run episodes of a random or a saved policy in one environment, one after the "
        "other; print the returns and the lengths, and write a video of all of them.",
    )
    parser.set_defaults(run=run)
    add_environment(parser, None)
    for flag, text in _FILES.items():
        parser.add_argument(flag, type=Path, metavar="FILE", help=text)
    add_int(parser, "--episodes", "number of episodes", 1, 1)
    text = "maximum steps of an episode (default: the task's limit, or 1000 if it has none)"
    parser.add_argument("--steps", type=at_least(1), metavar="N", help=text)
    add_int(parser, "--seed", "seed of the environment and of random actions", 0, 0)


def run(given: argparse.Namespace) -> int:
    """Run the episodes, print their returns and lengths, and write the video.

    Ctrl-C and errors come after a summary of the episodes that were finished.
    """
    found: list[Episode] = []
    try:
        with explain(f"{given.id} failed"), closing(_make_envs(given)) as envs:
            policy = load_policy(given.policy, envs, given.seed, given.vecnormalize)
            with open_video(given.video, int(envs.metadata.get("render_fps", 30))) as draw:
                for number in range(1, given.episodes + 1):
                    total, length, end = one = _run_episode(number, envs, policy, draw, given)
                    found.append(one)
                    if not given.json:
                        steps = count(length, "step")
                        show(f"episode {number}: return {total:.2f}, {steps}, {end}")
    finally:
        if found:
            summary = _summarise(found)
            show(summary if given.json else _TEXT.format(count(len(found), "episode"), **summary))
    return 0


def _make_envs(given: argparse.Namespace) -> SyncVectorEnv:
    """Return one environment as a batch, which draws its frames for ``--video``."""
    keywords = read_keywords(given)
    if given.video is not None:
        keywords["render_mode"] = "rgb_array"
    make = partial(gym.make, given.id, disable_env_checker=True, **keywords)
    return SyncVectorEnv([make], autoreset_mode=AutoresetMode.DISABLED)


def _run_episode(
    number: int, envs: SyncVectorEnv, policy: Policy, draw: Draw, given: argparse.Namespace
) -> Episode:
    """Return an episode of a batch of one; only the first one begins from the seed."""
    spec = envs.envs[0].spec
    limit = given.steps or (spec and spec.max_episode_steps) or 1000
    total, length, end = 0.0, 0, "stopped"
    obs, _ = envs.reset(seed=given.seed if number == 1 else None)
    draw(envs)
    while end == "stopped" and length < limit:
        LOG.debug("Episode %d, step %d of at most %d", number, length, limit)
        obs, rewards, terminations, truncations, _ = envs.step(policy(obs))
        draw(envs)
        total, length = total + float(rewards[0]), length + 1
        if terminations[0] or truncations[0]:
            end = "terminated" if terminations[0] else "truncated"
    return Episode(total, length, end)


def _summarise(found: list[Episode]) -> dict[str, Any]:
    returns, lengths = [one.episode_return for one in found], [one.length for one in found]
    return {
        "mean_return": mean(returns),
        "deviation_of_returns": pstdev(returns),
        "mean_length": mean(lengths),
        "episodes": [one._asdict() for one in found],
    }


_TEXT = (
    "mean return {mean_return:.2f} (standard deviation {deviation_of_returns:.2f}), "
    "mean length {mean_length:.1f} over {}"
)
