"""What every view of a batch needs of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from gymbridge.errors import ArgumentError, EnvContractError

__all__ = ["check_final_obs", "check_numpy"]


def check_numpy(name: str, envs: VectorEnv[Any, Any, Any], trainer: str) -> None:
    """Raise unless a batch that says what arrays it gives, gives numpy arrays.

    Args:
        name: Of the argument, for the error.
        envs: The batch.
        trainer: Who needs numpy arrays.

    Raises:
        ArgumentError: It gives others.
    """
    arrays = getattr(envs.unwrapped, "arrays", "numpy")
    if arrays != "numpy":
        raise ArgumentError(
            f"`{name}` must give numpy arrays, which {trainer} expects, got a batch with "
            f"`arrays={arrays!r}`; build it with `arrays='numpy'`."
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
