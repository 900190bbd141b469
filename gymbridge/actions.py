"""Batches of actions, checked once and put into the dtype of their space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from gymbridge.errors import ActionError, ArgumentError, ArgumentTypeError

__all__ = [
    "ActionReader",
    "LeafMaker",
    "check_castable",
    "check_shape",
    "integer_bounds",
    "make_action_reader",
    "make_numpy_reader",
]

ActionReader = Callable[[Any], Any]
"""From what the user gave to what the simulator takes."""

LeafMaker = Callable[[spaces.Space[Any], tuple[int, ...]], ActionReader]
"""From a space without subspaces and the dimensions of a batch to the reader of its actions."""


def make_action_reader(
    space: spaces.Space[Any], lead: tuple[int, ...], make_leaf: LeafMaker
) -> ActionReader:
    """Return the function that checks a batch of actions for `space` and puts it into its dtype.

    Casts follow numpy's ``same_kind`` rule.

    Args:
        space: The single action space: `Box`, `Discrete`, `MultiDiscrete`, `MultiBinary`, or a
            `Dict` of such.
        lead: Dimensions of a batch, (num_envs,) in a step.
        make_leaf: Makes the reader of one kind of arrays.

    Raises:
        ArgumentError: A space of another kind.
    """
    if isinstance(space, spaces.Dict):
        return _make_dict_reader(space, lead, make_leaf)
    if not isinstance(
        space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
    ):
        raise ArgumentError(
            "`action_space` must be Box, Discrete, MultiDiscrete, MultiBinary or a Dict of such, "
            f"got {space}."
        )
    return make_leaf(space, lead)


def _make_dict_reader(
    space: spaces.Dict, lead: tuple[int, ...], make_leaf: LeafMaker
) -> ActionReader:
    readers = {key: make_action_reader(sub, lead, make_leaf) for key, sub in space.spaces.items()}

    def read(actions: Any) -> dict[str, Any]:
        if not isinstance(actions, Mapping):
            raise ArgumentTypeError(
                f"`actions` must be a dict with the keys {sorted(readers)}, got "
                f"{type(actions).__name__}."
            )
        if actions.keys() != readers.keys():
            raise ActionError(
                f"`actions` must have the keys {sorted(readers)}, got {list(actions)}."
            )
        return {key: reader(actions[key]) for key, reader in readers.items()}

    return read


def make_numpy_reader(space: spaces.Space[Any], lead: tuple[int, ...]) -> ActionReader:
    """Return the reader of numpy arrays and lists of single actions.

    Discrete values, and integer ones in a `Box`, must lie in the space; float ones may leave it,
    as Gymnasium allows: what that means is the engine's business.
    """
    shape, dtype = (*lead, *(space.shape or ())), np.dtype(space.dtype)
    check = check_castable if dtype.kind == "f" else _make_range_check(space)

    def read(actions: Any) -> np.ndarray:
        array = actions if type(actions) is np.ndarray else _to_array(actions)
        check_shape(array, shape)
        check(array, dtype)
        return array if array.dtype == dtype else array.astype(dtype)

    return _make_fast_reader(space, shape, dtype, read) if shape == lead else read


def _make_fast_reader(
    space: spaces.Space[Any], shape: tuple[int, ...], dtype: np.dtype[Any], read: ActionReader
) -> ActionReader:
    """Return a reader that takes good batches of `Discrete` from 0 with one check of the values."""
    if not isinstance(space, spaces.Discrete) or space.start != 0:
        return read
    last, largest = int(space.n) - 1, np.maximum.reduce
    values = frozenset(range(last + 1)) if last < 1024 else frozenset()

    def is_inside(actions: np.ndarray) -> bool:
        # Negative values are huge in the unsigned view: one reduction checks both ends. Where
        # `last` reaches into that half, `read` looks at both.
        half = 1 << (8 * actions.itemsize - 1)
        return last < half and largest(actions.view(f"u{actions.itemsize}")) <= last

    def is_inside_small(actions: np.ndarray) -> bool:
        return values.issuperset(actions.tolist())  # for a few values, cheaper than a reduction

    check = is_inside_small if values and shape[0] <= 128 else is_inside

    def read_fast(actions: Any) -> np.ndarray:
        if (
            type(actions) is np.ndarray
            and actions.dtype.kind in "iu"
            and actions.dtype.isnative
            and actions.shape == shape
            and check(actions)
        ):
            return actions if actions.dtype == dtype else actions.astype(dtype)
        return read(actions)

    return read_fast


def check_castable(array: Any, dtype: np.dtype[Any]) -> None:
    """Raise unless an array, or whatever has the `dtype` of one, can be cast to `dtype`."""
    if array.dtype != dtype and not np.can_cast(array.dtype, dtype, "same_kind"):
        raise ArgumentTypeError(
            f"`actions` must be castable to {dtype} (numpy's 'same_kind'), got {array.dtype}."
        )


def _make_range_check(space: spaces.Space[Any]) -> Callable[[np.ndarray, np.dtype[Any]], None]:
    """Return the check that all values lie in an integer space."""
    low, high = integer_bounds(space)

    def check(array: np.ndarray, dtype: np.dtype[Any]) -> None:
        if array.dtype.kind not in "iub":
            raise ArgumentTypeError(f"`actions` must be integers for {space}, got {array.dtype}.")
        if not ((array >= low) & (array <= high)).all():
            raise ActionError(f"`actions` must lie in {space} for every environment, got {array}.")

    return check


def integer_bounds(space: spaces.Space[Any]) -> tuple[Any, Any]:
    """Return the least and the largest value of an integer space, scalars or of its shape."""
    if isinstance(space, spaces.Box):
        return space.low, space.high
    if isinstance(space, spaces.Discrete):
        return int(space.start), int(space.start) + int(space.n) - 1
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    return 0, 1


def _to_array(actions: Any) -> np.ndarray:
    try:
        return np.asarray(actions)
    except ValueError as error:
        raise ActionError(f"`actions` must form one array, got {actions!r}: {error}.") from error


def check_shape(array: Any, shape: tuple[int, ...]) -> None:
    """Raise unless an array of any kind has the shape of a batch of actions."""
    if tuple(array.shape) == shape:
        return
    if len(array.shape) == 0:
        raise ArgumentTypeError(
            f"`actions` must be a batch of shape {shape}, got the single value {array}."
        )
    raise ActionError(
        f"`actions` must have shape {shape} (one action per environment), got {tuple(array.shape)}."
    )
