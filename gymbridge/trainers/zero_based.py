"""Spaces whose integers begin at 0, for trainers that support no others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from gymbridge.core.arrays.adapter import identity
from gymbridge.core.spaces import space_leaves

__all__ = ["from_zero", "has_offsets", "to_zero", "zero_based_space"]


def zero_based_space(space: Space[Any]) -> Space[Any]:
    """Return the space with all `Discrete` and `MultiDiscrete` beginning at 0; itself if they do.

    Example:
        >>> zero_based_space(spaces.Discrete(3, start=5))
        Discrete(3)
    """
    if not has_offsets(space):
        return space
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: zero_based_space(sub) for key, sub in space.spaces.items()})
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec, dtype=space.dtype.type)
    assert isinstance(space, spaces.Discrete)
    return spaces.Discrete(space.n, dtype=space.dtype.type)


def has_offsets(space: Space[Any]) -> bool:
    """Return whether some integers of the space begin elsewhere than at 0."""
    return any(np.any(getattr(part, "start", 0)) for part in space_leaves(space))


def to_zero(space: Space[Any]) -> Callable[[Any], Any]:
    """Return the function of values of `space`, one or a batch, to those of its zero-based space.

    Example:
        >>> to_zero(spaces.Discrete(3, start=5))(np.array([5, 7]))
        array([0, 2])
    """
    return partial(_shift, space, -1) if has_offsets(space) else identity


def from_zero(space: Space[Any]) -> Callable[[Any], Any]:
    """Return the function of values of the zero-based space to those of `space`."""
    return partial(_shift, space, 1) if has_offsets(space) else identity


def _shift(space: Any, sign: int, value: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _shift(space[key], sign, value[key]) for key in space.spaces}
    start = getattr(space, "start", 0)
    return (value + sign * start).astype(space.dtype) if np.any(start) else value
