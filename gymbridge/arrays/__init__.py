"""Arrays at the edge between a simulator and its user: the one place that converts them.

A simulator works with numpy, jax or (with a graph through it) torch arrays, its user with any of
the three; `make_edge` chooses the way between the two at construction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space

from gymbridge.actions import LeafMaker, make_numpy_reader
from gymbridge.errors import ArgumentError, NotInstalledError
from gymbridge.requests import Device

__all__ = [
    "ARRAYS",
    "Converter",
    "Edge",
    "jax_to_numpy",
    "make_edge",
    "make_numpy_edge",
    "map_arrays",
    "own",
]

ARRAYS = ("numpy", "torch", "jax")
"""Kinds of arrays that a user can ask for."""

Converter = Callable[[Any], Any]
"""From a tree of one kind of arrays to the same tree of another."""


def own(tree: Any) -> Any:
    """Return what belongs to its receiver already as it is: a tick, a mask or a space."""
    return tree


class Edge(NamedTuple):
    """The way of arrays between a simulator and its user."""

    arrays: str  # the user's kind
    show: Converter  # trees of the simulator's arrays -> arrays that are the user's own
    make_action_reader: LeafMaker  # the user's actions, checked -> the simulator's arrays
    read_mask: Converter = own  # a mask of the user's -> numpy; others are left for the check
    to_space: Callable[[Space[Any]], Space[Any]] = own  # with the dtypes that the arrays can have
    where: Callable[[Any, Any, Any], Any] = np.where  # on the simulator's arrays
    device: Any = None  # of the user's arrays, as their library knows it; None for numpy

    @property
    def is_dense(self) -> bool:
        """Whether values stay unread on the host, so that infos have one shape in every step."""
        return self.arrays != "numpy"


def make_edge(native: str, arrays: Any, device: Device | None) -> Edge:
    """Return the edge between a simulator's arrays and the user's.

    Args:
        native: Kind of the simulator's arrays.
        arrays: Kind of the user's.
        device: Where the user's arrays are; None for the simulator's own device.

    Raises:
        ArgumentError: An unknown kind, or a device that does not exist.
        NotInstalledError: The library of that kind is not installed.
    """
    if arrays not in ARRAYS:
        raise ArgumentError(f"`arrays` must be one of {ARRAYS}, got {arrays!r}.")
    try:
        if arrays == "torch":
            from gymbridge.arrays.torch import make_torch_edge

            return make_torch_edge(native, device)
        if arrays == "jax":
            from gymbridge.arrays.jax import make_jax_edge

            return make_jax_edge(native, device)
    except ImportError as error:
        if (error.name or "").split(".")[0] == "gymbridge":
            raise
        raise NotInstalledError(
            f"`arrays={arrays!r}` needs {arrays}: pip install {arrays} ({error})."
        ) from error
    return make_numpy_edge(native, device)


def make_numpy_edge(native: str, device: Device | None) -> Edge:
    """Return the edge to a user of numpy arrays."""
    if native == "numpy" and device is not None and device.kind != "cpu":
        raise ArgumentError(
            f"`device` must be 'cpu' or None for numpy arrays of an engine that runs on the CPU, "
            f"got '{device}'; `arrays='torch'` puts tensors on that device."
        )
    return Edge("numpy", jax_to_numpy if native == "jax" else own, make_numpy_reader)


def map_arrays(convert: Converter, tree: Any) -> Any:
    """Return a tree of dicts and named tuples with every array converted."""
    if isinstance(tree, dict):
        return {key: map_arrays(convert, value) for key, value in tree.items()}
    if isinstance(tree, tuple):
        return type(tree)(*[map_arrays(convert, value) for value in tree])
    return convert(tree)


def jax_to_numpy(tree: Any) -> Any:
    """Return a tree with every leaf as a numpy array of its own, writable.

    A view of a `jax.Array` is read-only and shares the buffer with the simulator, so it is copied.
    """
    return map_arrays(np.array, tree)
