"""``gymbridge rollout``: episodes of a policy, their returns, and a video of them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import mean, pstdev
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv

from gymbridge.command_line.batches import make_batch
from gymbridge.command_line.options import add_id, add_json, add_kwargs, at_least, read_keywords
from gymbridge.command_line.policies import Policy, load_policy
from gymbridge.command_line.video import Draw, open_video
from gymbridge.errors import ArgumentError
from gymbridge.registration import find_engine

__all__ = ["Episode", "add_to", "play", "run"]

_STEPS_WITHOUT_LIMIT = 1000


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
    add_id(parser)
    text = "MP4 video to write; needs moviepy (default: none)"
    parser.add_argument("--video", type=Path, metavar="FILE.mp4", help=text)
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help="a .pt file of torch.jit.save, a .pt2 file of torch.export.save, or a .zip file of "
        "Stable-Baselines3; a .zip can run any code, so load only what you trust (default: random "
        "actions)",
    )
    text = "number of episodes (default: %(default)s)"
    parser.add_argument("--episodes", type=at_least(1), default=1, metavar="N", help=text)
    text = "maximum steps of an episode (default: the task's limit, or 1000 if it has none)"
    parser.add_argument("--steps", type=at_least(1), metavar="N", help=text)
    text = "seed of the environment and of random actions (default: %(default)s)"
    parser.add_argument("--seed", type=at_least(0), default=0, metavar="N", help=text)
    add_kwargs(parser)
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Run the episodes, print their returns and lengths, and write the video.

    Raises:
        ArgumentError: The policy cannot be used, or the batch of a video draws no frames.
        NotInstalledError: A library that the policy or the video needs is not installed.
    """
    drawn = {} if given.video is None else {"render_mode": "rgb_array"}
    kwargs = _disabled(given.id) | drawn | read_keywords(given)
    with closing(make_batch(given.id, num_envs=1, **kwargs)) as envs:
        if given.video is not None and envs.render_mode != "rgb_array":
            raise ArgumentError(
                f"`--video` needs `render_mode` 'rgb_array', got {envs.render_mode!r}; "
                "omit `--kwarg render_mode=…`."
            )
        policy = load_policy(given.policy, envs, given.seed)
        with open_video(given.video, int(envs.metadata.get("render_fps", 30))) as draw:
            limit = given.steps or _own_limit(envs)
            found = []
            for episode in play(envs, policy, draw, given.episodes, limit, given.seed):
                found.append(episode)
                if not given.json:
                    print(_line(len(found), episode), flush=True)
    summary = _summarise(given, found)
    print(json.dumps(summary, indent=2) if given.json else _text(summary))
    return 0


def _disabled(env_id: str) -> dict[str, Any]:
    """Return the keywords of a batch that does not restart episodes by itself."""
    if find_engine(env_id) is not None:
        return {"autoreset_mode": "Disabled"}
    return {"vectorization_mode": "sync", "vector_kwargs": {"autoreset_mode": "Disabled"}}


def play(
    envs: VectorEnv[Any, Any, Any], policy: Policy, draw: Draw, count: int, limit: int, seed: int
) -> Iterator[Episode]:
    """Yield one episode after the other; only the first one begins from the seed.

    Args:
        envs: A batch of one with `AutoresetMode.DISABLED`.
        policy: Function from observations to actions.
        draw: Takes a frame for each observation, if the batch draws frames.
        count: Number of episodes.
        limit: Maximum steps of an episode.
        seed: Seed of the environment.
    """

    def show() -> None:
        if envs.render_mode is not None:
            frames: Any = envs.render()
            draw(np.asarray(frames[0]))

    for episode in range(count):
        obs, _ = envs.reset(seed=None if episode else seed)
        show()
        total, length, end = 0.0, 0, "stopped"
        while end == "stopped" and length < limit:
            obs, rewards, terminations, truncations, _ = envs.step(policy(obs))
            show()
            total, length = total + float(rewards[0]), length + 1
            if terminations[0] or truncations[0]:
                end = "terminated" if terminations[0] else "truncated"
        yield Episode(total, length, end)


def _own_limit(envs: VectorEnv[Any, Any, Any]) -> int:
    spec = envs.spec
    # `make_vec` leaves the limit that a user gives to `SyncVectorEnv` in the keywords; -1 is none.
    own = spec.kwargs.get("max_episode_steps", spec.max_episode_steps) if spec else None
    return own if own is not None and own > 0 else _STEPS_WITHOUT_LIMIT


def _line(number: int, episode: Episode) -> str:
    total, length, end = episode
    return f"episode {number}: return {total:.2f}, {length} steps, {end}"


def _summarise(given: argparse.Namespace, found: list[Episode]) -> dict[str, Any]:
    returns, lengths = [one.episode_return for one in found], [one.length for one in found]
    return {
        "id": given.id,
        "policy": "random" if given.policy is None else str(given.policy),
        "seed": given.seed,
        "mean_return": mean(returns),
        "deviation_of_returns": pstdev(returns),
        "mean_length": mean(lengths),
        "episodes": [one._asdict() for one in found],
        "video": None if given.video is None else str(given.video),
    }


def _text(summary: dict[str, Any]) -> str:
    count = len(summary["episodes"])
    text = (
        "{id}, policy {policy}: mean return {mean_return:.2f} (standard deviation "
        "{deviation_of_returns:.2f}), mean length {mean_length:.1f}".format(**summary)
    )
    wrote = f"\nWrote {summary['video']}" if summary["video"] else ""
    return f"{text} over {count} episode{'s' * (count > 1)}{wrote}"
