"""CleanRL: a batch in place of the ``gym.vector.SyncVectorEnv([...])`` of its scripts.

`gymbridge.trainers.cleanrl.envpool` replaces the ``envpool.make`` of its scripts on EnvPool.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Box
from gymnasium.wrappers.vector import RecordVideo, TransformAction

from gymbridge.core.requests import read_seed
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.trainers.batches import make_same_step
from gymbridge.trainers.cleanrl.vector_env import CleanRLVectorEnv
from gymbridge.wrappers import (
    ClipReward,
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
)

__all__ = ["CleanRLVectorEnv", "make_cleanrl"]

_BOUND = 10.0


def make_cleanrl(
    env_id: str,
    num_envs: int = 1,
    *,
    seed: int | None = None,
    normalize: str | None = None,
    gamma: float = 0.99,
    capture_video: str | Literal[False] = False,
    **kwargs: Any,
) -> CleanRLVectorEnv:
    """Return a batch of any id as a CleanRL script needs it, normalised or not.

    Args:
        env_id: Any id of Gymnasium's registry, such as "EnvPool/CartPole-v1".
        num_envs: Size of the batch.
        seed: Seeds `single_action_space`, from which the off-policy scripts draw their first
            actions; the episodes' seed goes to `reset`, as in every script.
        normalize: None for a script that has only ``RecordEpisodeStatistics`` in its ``make_env``.
            "env" for those that ppo_continuous_action and rpo_continuous_action have there:
            actions are clipped to their Box, and observations and rewards are normalised and
            clipped to [-10, 10]. "batch" for the same with one set of statistics for all
            environments; prefer it for large batches.
        gamma: Discount of the return that scales rewards; used only with `normalize`.
        capture_video: Folder for videos of environment 0, or False for none, as in the scripts:
            ``args.capture_video and f"videos/{run_name}"``. Gymnasium's vector `RecordVideo`
            chooses the episodes; in SameStep it does not record the last frame of an episode.
        **kwargs: Keywords of the environment.

    Raises:
        ArgumentError: `seed`, `normalize` or `gamma` has an invalid value, or the batch is one that
            `CleanRLVectorEnv` refuses.
        ArgumentTypeError: `env_id` is not a string, `seed` is not an int, or `capture_video` is
            neither a folder nor False.
        gymnasium.error.Error: There is no such id.
    """
    if not isinstance(env_id, str):
        raise ArgumentTypeError(
            f"`env_id` must be an id such as 'EnvPool/CartPole-v1', got {type(env_id).__name__}; "
            "for a batch that you have built, use `CleanRLVectorEnv(envs)`."
        )
    if normalize not in (None, "env", "batch"):
        raise ArgumentError(
            "`normalize` must be None, 'env' (statistics for each environment) or 'batch' (one set "
            f"for all), got {normalize!r}."
        )
    seed = read_seed(seed)
    if capture_video is not False and not isinstance(capture_video, str):
        raise ArgumentTypeError(
            "`capture_video` must be a folder or False, as in `args.capture_video and "
            f"f'videos/{{run_name}}'`, got {capture_video!r}."
        )
    if capture_video:
        kwargs = {"render_mode": "rgb_array", **kwargs}
    envs = make_same_step(env_id, num_envs, kwargs)
    if capture_video:
        envs = RecordVideo(envs, capture_video, record_first_only=True)
    view = CleanRLVectorEnv(envs if normalize is None else _normalize(envs, normalize, gamma))
    view.single_action_space.seed(seed)
    return view


def _normalize(envs: Any, statistics: str, gamma: float) -> ClipReward:
    """Return a batch in the wrappers that continuous PPO has around each environment."""
    envs = RecordEpisodeStatistics(envs)  # It records the task's own rewards.
    space = envs.single_action_space
    if isinstance(space, Box):
        envs = TransformAction(envs, partial(np.clip, a_min=space.low, a_max=space.high))
    envs = NormalizeObservation(envs, statistics=statistics, clip=_BOUND)
    envs = NormalizeReward(envs, gamma, statistics=statistics)
    return ClipReward(envs, -_BOUND, _BOUND)
