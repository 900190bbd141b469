"""What Stable-Baselines3 needs of a batch, checked before anything reads from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import AutoresetMode

from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.trainers.batches import check_batch

__all__ = ["check_arrays", "check_vector_env"]


def check_vector_env(vector_env: Any) -> None:
    """Raise unless Stable-Baselines3 can work with the batch."""
    hint = "Stable-Baselines3 takes a single environment as it is"
    check_batch("vector_env", vector_env, "Stable-Baselines3", AutoresetMode.SAME_STEP, hint)
    space = vector_env.single_observation_space
    if any(isinstance(part, spaces.Dict | spaces.Tuple) for part in _parts(space)):
        raise ArgumentError(
            "`vector_env` must have observations that are nested once at most, as "
            f"Stable-Baselines3 expects, got {space}; flatten them where they are made, such as by "
            "gymnasium.wrappers.FlattenObservation inside SyncVectorEnv."
        )


def check_arrays(obs: Any) -> None:
    """Raise unless observations are numpy arrays, or dicts or tuples of them."""
    if isinstance(obs, dict | tuple):
        for part in obs.values() if isinstance(obs, dict) else obs:
            check_arrays(part)
    elif not isinstance(obs, np.ndarray):
        raise ArgumentTypeError(
            "`vector_env` must return numpy arrays, as Stable-Baselines3 expects, got "
            f"{type(obs).__name__}; build it with `arrays='numpy'`."
        )


def _parts(space: Space[Any]) -> Iterable[Space[Any]]:
    if isinstance(space, spaces.Dict):
        return space.spaces.values()
    return space.spaces if isinstance(space, spaces.Tuple) else ()
