"""Batches of any Gymnasium id, with errors that a user of the command line can read."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

from gymbridge.errors import ArgumentError, GymbridgeError

__all__ = ["make_batch", "mode_keyword"]


def make_batch(env_id: str, **kwargs: Any) -> VectorEnv[Any, Any, Any]:
    """Return the batch that `gymnasium.make_vec` makes.

    Raises:
        GymbridgeError: gymbridge refuses a keyword, or a library is not installed.
        ArgumentError: Something else fails while the environment is built.
        gymnasium.error.Error: There is no such id; the message has similar ones.
    """
    try:
        return gym.make_vec(env_id, **kwargs)
    except (GymbridgeError, gym.error.Error):
        raise
    except Exception as error:  # whatever an engine or a keyword's value leads to
        raise ArgumentError(f"{env_id} cannot be built: {type(error).__name__}: {error}") from error


def mode_keyword(env_id: str, mode: str | None, **kwargs: Any) -> dict[str, Any]:
    """Return the keyword of `make_batch` that sets an autoreset mode; no keyword if it is None.

    `make_vec` builds a `SyncVectorEnv` for ids without a batch of their own, and takes its mode
    inside another keyword. Which of the two an id is, is read from a batch, because ids may be
    ``module:id`` or have no version.

    Raises:
        GymbridgeError, gymnasium.error.Error: As `make_batch`.
    """
    if mode is None:
        return {}
    with closing(make_batch(env_id, **kwargs)) as envs:
        is_own = envs.spec is not None and envs.spec.vector_entry_point is not None
    return {"autoreset_mode": mode} if is_own else {"vector_kwargs": {"autoreset_mode": mode}}
