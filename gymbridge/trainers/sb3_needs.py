"""What Stable-Baselines3 needs of a batch, checked before anything reads from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.trainers.needs import check_numpy

__all__ = ["check_arrays", "check_vector_env"]


def check_vector_env(vector_env: Any) -> None:
    """Raise unless Stable-Baselines3 can work with the batch."""
    if not isinstance(vector_env, VectorEnv):
        raise ArgumentTypeError(
            "`vector_env` must be a gymnasium.vector.VectorEnv, got "
            f"{type(vector_env).__name__}; Stable-Baselines3 takes a single environment as it is."
        )
    check_numpy("vector_env", vector_env, "Stable-Baselines3")
    mode = vector_env.metadata.get("autoreset_mode")
    if mode is not AutoresetMode.SAME_STEP:
        raise ArgumentError(
            "`vector_env` must restart episodes by AutoresetMode.SAME_STEP, as Stable-Baselines3 "
            f"expects, got {mode}; build it with `autoreset_mode='SameStep'` (gymbridge) or "
            "`autoreset_mode=AutoresetMode.SAME_STEP` (SyncVectorEnv, AsyncVectorEnv)."
        )
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
