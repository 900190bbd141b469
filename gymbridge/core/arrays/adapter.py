"""What an adapter of arrays is, how it reads actions, and trees of arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space

from gymbridge.core.actions import LeafMaker, NumpyReader, check_shape, int64_bounds
from gymbridge.core.arrays.packing import Packed
from gymbridge.core.episode import count_rows

__all__ = [
    "ArrayAdapter",
    "ArrayReader",
    "Converter",
    "copy_array",
    "fetch_together",
    "gather",
    "gather_array",
    "identity",
    "jax_to_numpy",
    "list_arrays",
    "map_arrays",
]

Converter = Callable[[Any], Any]
"""From a tree of one kind of arrays to the same tree of another."""


def identity(tree: Any) -> Any:
    """Return a time step, a mask or a space as it is, where nothing has to be converted."""
    return tree


def copy_array(array: Any) -> Any:
    """Return a copy of an array of numpy or jax."""
    return array.copy()


class ArrayAdapter(NamedTuple):
    """The conversions of arrays between a runner and its user."""

    arrays: str  # kind of the user's arrays
    to_user: Converter  # trees of the runner's arrays -> arrays that are the user's own
    make_action_reader: LeafMaker  # the user's actions, checked -> the simulator's arrays
    # An argument's name and the user's mask -> a numpy mask, or what was given, to be refused.
    read_mask: Callable[[str, Any], Any] = lambda _, mask: mask
    to_space: Callable[[Space[Any]], Space[Any]] = identity  # space -> with the arrays' dtypes
    # Of the runner's arrays: a library with `where` and `zeros_like`, a copy, and a mask in int32.
    library: Any = np
    copy: Converter = copy_array
    count_rows: Converter = count_rows
    to_runner: Converter = identity  # numpy mask -> the runner's
    device: Any = None  # where the user's arrays are; None for numpy
    pack: Converter = identity  # flags and infos, in a compiled function -> `Packed`
    # Before a call without actions: memory that the user's library still reads is not written yet.
    wait_for_reads: Callable[[], None] = lambda: None


class ArrayReader(NumpyReader, ABC):
    """Reads arrays of one library on one device, and numpy arrays; integers are clipped.

    `hand_over` makes the simulator's arrays of the library's, and `upload` makes them of numpy
    arrays, which may belong to the user. `space` and `lead` are those of a `LeafMaker`.
    """

    def __init__(
        self,
        space: Space[Any],
        lead: tuple[int, ...],
        *,
        place: Any = None,
        hand_over: Converter = identity,
        upload: Converter = identity,
    ) -> None:
        super().__init__(space, lead)
        self._place, self._hand_over, self._upload = place, hand_over, upload
        if not self._is_float:
            self._low, self._high = int64_bounds(space)

    def __call__(self, actions: Any) -> Any:
        """Return the actions as the simulator takes them."""
        if isinstance(actions, np.ndarray):
            return self._upload(super().__call__(actions))
        self._check(actions)
        check_shape(actions, self._shape)
        return self._hand_over(self._cast(actions))

    def _fit(self, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind == "u" and array.itemsize == 8:
            # Larger ones would become negative below.
            array = np.minimum(array, np.iinfo(np.int64).max)
        # Quicker than `np.clip`.
        return np.minimum(np.maximum(array.astype(np.int64), self._low), self._high)

    @abstractmethod
    def _check(self, actions: Any) -> None:
        """Raise unless the actions are an array of the library, with values, on the device."""

    @abstractmethod
    def _cast(self, actions: Any) -> Any:
        """Return the actions in the dtype of the space, and integers within it."""


def map_arrays(convert: Converter, tree: Any) -> Any:
    """Return a tree of dicts and tuples with every array converted; None stays None."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: map_arrays(convert, value) for key, value in tree.items()}
    if isinstance(tree, tuple):
        values = [map_arrays(convert, value) for value in tree]
        return tuple(values) if type(tree) is tuple else type(tree)(*values)
    return convert(tree)


def list_arrays(tree: Any) -> list[Any]:
    """Return the arrays of a tree in its order, and the buffers of what is packed."""
    if tree is None:
        return []
    if isinstance(tree, Packed):
        return list_arrays(tuple(tree.buffers))
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    return [x for part in tree for x in list_arrays(part)] if isinstance(tree, tuple) else [tree]


def jax_to_numpy(tree: Any) -> Any:
    """Return a tree with a writable numpy copy of each leaf, since a view would be read-only."""
    return map_arrays(partial(_to_numpy, np.array), tree)


def fetch_together(tree: Any) -> Any:
    """Return what `jax_to_numpy` does, after starting all transfers together."""
    for array in list_arrays(tree):
        if hasattr(array, "copy_to_host_async"):
            array.copy_to_host_async()
    return jax_to_numpy(tree)


def gather(tree: Any) -> Any:
    """Return what `jax_to_numpy` does, of arrays that are spread over CPU devices; in one copy."""
    return map_arrays(partial(_to_numpy, gather_array), tree)


def _to_numpy(fetch: Converter, array: Any) -> Any:
    """Return an array, or the tree of arrays of what is packed."""
    if isinstance(array, Packed):
        return array.structure.unflatten(array.take_apart([*map(fetch, array.buffers)]))
    return fetch(array)


def gather_array(array: Any) -> np.ndarray:
    """Return a copy of an array that is spread over CPU devices."""
    sharding = array.sharding
    parts = map(array.addressable_data, range(len(sharding.device_set)))
    return np.concatenate([np.asarray(part) for part in parts], sharding.spec.index("envs"))
