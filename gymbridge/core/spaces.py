"""Spaces with the dtypes of the arrays that are in them, and those of wrappers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, cast

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import VectorWrapper

__all__ = ["ARRAY_SPACES", "NumberSpace", "cast_space", "keep_apart", "space_leaves"]

ARRAY_SPACES: Any = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
"""Spaces whose batches are one array."""

NumberSpace: TypeAlias = "spaces.Box[Any] | spaces.Discrete[Any] | spaces.MultiDiscrete[Any]"
"""For type checkers: `isinstance` leaves open what these spaces are parametrised with."""


def space_leaves(space: Space[Any]) -> Iterator[Space[Any]]:
    """Yield the space itself, or those in a `Dict` and its `Dict`s."""
    if isinstance(space, spaces.Dict):
        for part in cast("spaces.Dict[Any]", space).spaces.values():
            yield from space_leaves(part)
    else:
        yield space


def cast_space(space: Space[Any], to_dtype: Callable[[Any], Any]) -> Space[Any]:
    """Return the space with other dtypes, such as 32 bits for 64 where JAX has no 64-bit arrays.

    `to_dtype` is the function from a numpy dtype to the dtype that replaces it. Spaces other than
    `Box`, `Discrete`, `MultiDiscrete` and a `Dict` of such come back as they are.

    Example:
        >>> from gymnasium.spaces import Discrete
        >>> cast_space(Discrete(3), lambda dtype: "int32").dtype
        dtype('int32')
    """
    if isinstance(space, spaces.Dict):
        subspaces = cast("spaces.Dict[Any]", space).spaces
        return spaces.Dict({key: cast_space(sub, to_dtype) for key, sub in subspaces.items()})
    if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete):
        return space
    space = cast("NumberSpace", space)
    dtype: Any = np.dtype(to_dtype(space.dtype)).type
    if space.dtype == dtype:
        return space
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n), start=int(space.start), dtype=dtype)
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec, start=space.start, dtype=dtype)
    low, high = _cast_bound(space.low, dtype), _cast_bound(space.high, dtype)
    return spaces.Box(low, high, space.shape, dtype)  # the shape: `clip` makes a number of shape ()


def _cast_bound(bound: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the bound with another dtype; an integer beyond its range is the last one in it."""
    if np.issubdtype(dtype, np.integer):
        bound = np.clip(bound, np.iinfo(dtype).min, np.iinfo(dtype).max)
    return bound.astype(dtype)


def keep_apart(wrapper: VectorWrapper[Any, Any, Any, Any, Any]) -> None:
    """Give a wrapper copies of the batch's spaces and metadata, since trainers write into those."""
    for name in (
        "single_observation_space",
        "single_action_space",
        "observation_space",
        "action_space",
        "metadata",
    ):
        setattr(wrapper, name, copy.deepcopy(getattr(wrapper.env, name)))
