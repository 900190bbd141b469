"""Environments of any Gymnasium id, with errors that a user of the command line can read."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

from gymbridge.errors import ArgumentError, GymbridgeError

__all__ = ["explain", "make_batch"]


def make_batch(env_id: str, **kwargs: Any) -> VectorEnv[Any, Any, Any]:
    """Return the batch that `gymnasium.make_vec` makes; see `explain` for its errors."""
    with explain(f"{env_id} cannot be built"):
        return gym.make_vec(env_id, **kwargs)


@contextmanager
def explain(failure: str) -> Iterator[None]:
    """Raise an error of an environment or an engine as an ArgumentError that begins with a text.

    Errors of gymbridge and of Gymnasium stay as they are: they say what to do. The error of an
    unknown id names similar ids, or `gymbridge list`.
    """
    try:
        yield
    except (gym.error.NameNotFound, gym.error.NamespaceNotFound) as error:
        if "Did you mean" in str(error):
            raise
        raise type(error)(f"{error} `gymbridge list` shows the ids of gymbridge.") from error
    except (GymbridgeError, gym.error.Error):
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise ArgumentError(
            f"{failure}: {type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
        ) from error
