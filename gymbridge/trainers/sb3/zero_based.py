"""Spaces whose integers begin at 0, for trainers that support no others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import Space, spaces

__all__ = ["from_zero", "has_offsets", "sub_spaces", "to_zero", "zero_based_space"]


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
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([zero_based_space(sub) for sub in space.spaces])
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec, dtype=space.dtype.type)
    assert isinstance(space, spaces.Discrete)
    return spaces.Discrete(space.n, dtype=space.dtype.type)


def has_offsets(space: Space[Any]) -> bool:
    """Return whether some integers of the space begin elsewhere than at 0."""
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return bool(np.any(space.start))
    return any(map(has_offsets, sub_spaces(space)))


def sub_spaces(space: Space[Any]) -> Iterable[Space[Any]]:
    """Return the spaces directly inside a `Dict` or `Tuple`, and none of any other."""
    if isinstance(space, spaces.Dict):
        return space.spaces.values()
    return space.spaces if isinstance(space, spaces.Tuple) else ()


def to_zero(space: Space[Any], value: Any) -> Any:
    """Return values of `space`, one or a batch, as they are in its zero-based space."""
    return _shift(space, value, -1)


def from_zero(space: Space[Any], value: Any) -> Any:
    """Return values of the zero-based space, one or a batch, as they are in `space`."""
    return _shift(space, value, 1)


def _shift(space: Space[Any], value: Any, sign: int) -> Any:
    if not has_offsets(space):
        return value
    if isinstance(space, spaces.Dict):
        return {key: _shift(space[key], value[key], sign) for key in space.spaces}
    if isinstance(space, spaces.Tuple):
        pairs = zip(space.spaces, value, strict=True)
        return tuple(_shift(sub, own, sign) for sub, own in pairs)
    assert isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
    return (value + sign * space.start).astype(space.dtype)
