"""What every view of a batch needs of it."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import VectorEnv

from gymbridge.errors import ArgumentError

__all__ = ["check_numpy"]


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
