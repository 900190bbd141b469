"""Batches of actions, checked once and put into the dtype of their space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from gymbridge.errors import ActionError, ArgumentError, ArgumentTypeError

__all__ = ["make_action_reader"]

ActionReader = Callable[[Any], Any]


def make_action_reader(space: spaces.Space[Any], num_envs: int) -> ActionReader:
    """Return the function that checks a batch of actions for `space` and puts it into its dtype.

    Lists of single actions are taken as arrays are. Casts follow numpy's ``same_kind`` rule.
    Discrete values, and integer ones in a `Box`, must lie in the space; float ones may leave it,
    as Gymnasium allows: what that means is the engine's business.

    Args:
        space: The single action space: `Box`, `Discrete`, `MultiDiscrete`, `MultiBinary`, or a
            `Dict` of such.
        num_envs: Size of the batch.

    Raises:
        ArgumentError: A space of another kind.
    """
    if isinstance(space, spaces.Dict):
        return _make_dict_reader(space, num_envs)
    if not isinstance(
        space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
    ):
        raise ArgumentError(
            "`action_space` must be Box, Discrete, MultiDiscrete, MultiBinary or a Dict of such, "
            f"got {space}."
        )
    return _make_array_reader(space, num_envs)


def _make_dict_reader(space: spaces.Dict, num_envs: int) -> ActionReader:
    readers = {key: make_action_reader(sub, num_envs) for key, sub in space.spaces.items()}

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


def _make_array_reader(space: spaces.Space[Any], num_envs: int) -> ActionReader:
    shape, dtype = (num_envs, *(space.shape or ())), np.dtype(space.dtype)
    check = _check_castable if dtype.kind == "f" else _make_range_check(space)

    def read(actions: Any) -> np.ndarray:
        array = actions if type(actions) is np.ndarray else _to_array(actions)
        if array.shape != shape:
            _refuse_shape(actions, array, shape)
        check(array, dtype)
        return array if array.dtype == dtype else array.astype(dtype)

    return _make_fast_reader(space, shape, dtype, read) if shape == (num_envs,) else read


def _make_fast_reader(
    space: spaces.Space[Any], shape: tuple[int, ...], dtype: np.dtype[Any], read: ActionReader
) -> ActionReader:
    """Return a reader that takes good batches of `Discrete` from 0 with one check of the values."""
    if not isinstance(space, spaces.Discrete) or space.start != 0:
        return read
    unsigned, last, largest = np.dtype(f"u{dtype.itemsize}"), int(space.n) - 1, np.maximum.reduce
    values = frozenset(range(last + 1)) if last < 1024 else frozenset()

    def is_inside(actions: np.ndarray) -> bool:
        # Negative values are huge in the unsigned view: one reduction checks both ends.
        return largest(actions.view(unsigned)) <= last

    def is_inside_small(actions: np.ndarray) -> bool:
        return values.issuperset(actions.tolist())  # for a few values, cheaper than a reduction

    check = is_inside_small if values and shape[0] <= 128 else is_inside

    def read_fast(actions: Any) -> np.ndarray:
        if (
            type(actions) is np.ndarray
            and actions.dtype == dtype
            and actions.shape == shape
            and check(actions)
        ):
            return actions
        return read(actions)

    return read_fast


def _check_castable(array: np.ndarray, dtype: np.dtype[Any]) -> None:
    if array.dtype != dtype and not np.can_cast(array.dtype, dtype, "same_kind"):
        raise ArgumentTypeError(
            f"`actions` must be castable to {dtype} (numpy's 'same_kind'), got {array.dtype}."
        )


def _make_range_check(space: spaces.Space[Any]) -> Callable[[np.ndarray, np.dtype[Any]], None]:
    """Return the check that all values lie in an integer space."""
    low, high = _integer_bounds(space)

    def check(array: np.ndarray, dtype: np.dtype[Any]) -> None:
        if array.dtype.kind not in "iub":
            raise ArgumentTypeError(f"`actions` must be integers for {space}, got {array.dtype}.")
        if not ((array >= low) & (array <= high)).all():
            raise ActionError(f"`actions` must lie in {space} for every environment, got {array}.")

    return check


def _integer_bounds(space: spaces.Space[Any]) -> tuple[Any, Any]:
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


def _refuse_shape(actions: Any, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.ndim == 0:
        raise ArgumentTypeError(
            f"`actions` must be a batch of shape {shape}, got the single value {actions!r}."
        )
    raise ActionError(
        f"`actions` must have shape {shape} (one action per environment), got {array.shape}."
    )
