"""Batches of actions, checked once and put into the dtype of their space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import numpy as np
from gymnasium import spaces

from gymbridge.core.spaces import ARRAY_SPACES, NumberSpace
from gymbridge.errors import ActionError, ArgumentError, ArgumentTypeError

__all__ = [
    "ActionReader",
    "LeafMaker",
    "NumpyReader",
    "check_shape",
    "int64_bounds",
    "make_action_reader",
    "make_numpy_reader",
    "to_array",
]

ActionReader = Callable[[Any], Any]
"""Converts a user's actions to the simulator's arrays."""

LeafMaker = Callable[[spaces.Space[Any], tuple[int, ...]], ActionReader]
"""Returns the reader for a space without subspaces and the dimensions of a batch."""

_INT64 = np.iinfo(np.int64)


def make_action_reader(
    space: spaces.Space[Any], lead: tuple[int, ...], make_leaf: LeafMaker
) -> ActionReader:
    """Return the function that checks a batch of actions and puts it into the dtype of `space`.

    `space` is that of one action, and `lead` are the dimensions of a batch, (num_envs,) in a step.
    `make_leaf` makes the reader of one kind of arrays. Casts follow numpy's ``same_kind`` rule.
    """
    if isinstance(space, spaces.Dict):
        subspaces = cast("spaces.Dict[Any]", space).spaces.items()
        readers = {key: make_action_reader(sub, lead, make_leaf) for key, sub in subspaces}
        return partial(_read_dict, readers)
    if not isinstance(space, ARRAY_SPACES):
        raise ArgumentError(
            "`action_space` must be Box, Discrete, MultiDiscrete, MultiBinary or a Dict of such, "
            f"got {space}."
        )
    return make_leaf(space, lead)


def _read_dict(readers: dict[str, ActionReader], actions: Any) -> dict[str, Any]:
    names = sorted(readers)
    if not isinstance(actions, Mapping):
        raise ArgumentTypeError(
            f"`actions` must be a dict with the keys {names}, got {type(actions).__name__}."
        )
    if actions.keys() != readers.keys():
        raise ActionError(f"`actions` must have the keys {names}, got {[*actions]}.")
    return {key: reader(actions[key]) for key, reader in readers.items()}


def make_numpy_reader(space: spaces.Space[Any], lead: tuple[int, ...]) -> ActionReader:
    """Return the reader of numpy arrays, lists of single actions and whatever numpy can read.

    Discrete values, and integer ones in a `Box`, must lie in the space. Float values outside the
    space, NaN included, are passed to the engine unchecked, as Gymnasium does.
    """
    if isinstance(space, spaces.Discrete) and space.n <= 1024 and lead[0] <= 128:
        return _DiscreteReader(space, lead)
    return NumpyReader(space, lead)


class NumpyReader:
    """Reads a batch of actions of one space with numpy."""

    def __init__(self, space: spaces.Space[Any], lead: tuple[int, ...]) -> None:
        self._space = space
        self._shape, self._dtype = (*lead, *(space.shape or ())), np.dtype(space.dtype)
        self._is_float = self._dtype.kind == "f"

    def __call__(self, actions: Any) -> np.ndarray:
        """Return the actions in the dtype of the space, uncopied if possible."""
        array = actions if type(actions) is np.ndarray else to_array(actions)
        check_shape(array, self._shape)
        self._check_dtype(array)
        if not self._is_float:
            array = self._fit(array)
        return array if array.dtype == self._dtype else array.astype(self._dtype)

    def _check_dtype(self, array: Any) -> None:
        """Raise unless an array, or whatever has the `dtype` of one, can be cast to the space's."""
        dtype = array.dtype
        if self._is_float:
            if dtype != self._dtype and not np.can_cast(dtype, self._dtype, "same_kind"):
                raise ArgumentTypeError(
                    f"`actions` must be castable to {self._dtype} (numpy's 'same_kind'), got "
                    f"{dtype}."
                )
        elif dtype.kind not in "iub":
            raise ArgumentTypeError(f"`actions` must be integers for {self._space}, got {dtype}.")

    def _fit(self, array: np.ndarray) -> np.ndarray:
        """Return the integers if all lie in the space."""
        low, high = _integer_bounds(self._space)
        if not ((array >= low) & (array <= high)).all():
            raise ActionError(
                f"`actions` must lie in {self._space} for every environment, got {array}."
            )
        return array


class _DiscreteReader(NumpyReader):
    """Compares few actions with few values in a set, which is quicker than a reduction."""

    def __init__(self, space: spaces.Discrete, lead: tuple[int, ...]) -> None:
        super().__init__(space, lead)
        self._values = frozenset(range(int(space.start), int(space.start + space.n)))

    def __call__(self, actions: Any) -> np.ndarray:
        if (
            type(actions) is np.ndarray
            and actions.dtype.kind in "iu"
            and actions.shape == self._shape
            and self._values.issuperset(actions.tolist())
        ):
            return actions if actions.dtype == self._dtype else actions.astype(self._dtype)
        return super().__call__(actions)


def int64_bounds(space: spaces.Space[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest value of an integer space as int64, () or of its shape."""
    low, high = (
        np.clip(np.asarray(bound), _INT64.min, _INT64.max).astype(np.int64)
        for bound in _integer_bounds(space)
    )
    return low, high


def _integer_bounds(space: spaces.Space[Any]) -> tuple[Any, Any]:
    """Return the least and the largest value of an integer space, scalars or of its shape."""
    space = cast("NumberSpace | spaces.MultiBinary", space)
    if isinstance(space, spaces.Box):
        return space.low, space.high
    if isinstance(space, spaces.Discrete):
        return int(space.start), int(space.start) + int(space.n) - 1
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    return 0, 1


def to_array(actions: Any) -> np.ndarray:
    """Return actions as one numpy array."""
    try:
        return np.asarray(actions)
    except ValueError as error:
        raise ActionError(f"`actions` must form one array, got {actions!r}: {error}.") from error
    except Exception as error:  # Tensors without values and users' objects raise anything.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ArgumentTypeError(
            "`actions` must hold values that numpy can read, got a "
            f"{type(actions).__name__}: {reason} Pass a numpy array."
        ) from error


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
