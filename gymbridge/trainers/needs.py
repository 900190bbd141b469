"""What every view of a batch needs of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.errors import ArgumentError, ArgumentTypeError, EnvContractError

__all__ = ["check_batch", "check_final_obs"]


def check_batch(name: str, envs: Any, trainer: str, mode: AutoresetMode, hint: str) -> None:
    """Raise unless a trainer can read what a batch gives.

    Args:
        name: Of the argument, for the error.
        envs: To be a `VectorEnv` of numpy arrays in that mode.
        trainer: Who reads it.
        mode: Of its restarts.
        hint: What to do with something that is no batch.

    Raises:
        ArgumentTypeError: It is no `VectorEnv`.
        ArgumentError: It gives other arrays, or restarts in another mode.
    """
    if not isinstance(envs, VectorEnv):
        raise ArgumentTypeError(
            f"`{name}` must be a gymnasium.vector.VectorEnv, got {type(envs).__name__}; {hint}."
        )
    arrays = getattr(envs.unwrapped, "arrays", "numpy")
    if arrays != "numpy":
        raise ArgumentError(
            f"`{name}` must give numpy arrays, as {trainer} expects, got a batch with "
            f"`arrays={arrays!r}`; build it with `arrays='numpy'`."
        )
    found = envs.metadata.get("autoreset_mode")
    if found != mode:
        raise ArgumentError(
            f"`{name}` must restart episodes by {mode}, as {trainer} expects, got {found}; build "
            f"it with `autoreset_mode={mode.value!r}` (gymbridge) or `autoreset_mode={mode}` "
            "(SyncVectorEnv, AsyncVectorEnv)."
        )


def check_final_obs(name: str, infos: dict[str, Any], ids: np.ndarray) -> None:
    """Raise unless a step that ended episodes shows their last observations.

    Args:
        name: Of the argument that the batch was, for the error.
        infos: Of the step.
        ids: (count,) int, environments whose episode ended.

    Raises:
        EnvContractError: It does not.
    """
    if "final_obs" not in infos:
        raise EnvContractError(
            f"`{name}` ended the episodes of environments {ids.tolist()} without "
            "`infos['final_obs']`, which AutoresetMode.SAME_STEP promises; without the last "
            "observations every timeout would be learned from as a termination."
        )
