"""Many small arrays as a few: one buffer for each dtype.

An array that goes from a compiled function to Python, from one compiled function to another, or
from the host to a device costs some microseconds, however small it is. Packed, it costs a slice.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["PLAIN", "Packed", "Run", "pack"]

PLAIN = frozenset("?bBhHiIlLqQefd")
"""Characters of the dtypes that numpy itself has and other libraries know."""

_SMALL = 1 << 16
"""Bytes up to which an array is joined with others; a copy of a larger one costs more."""

_FEW = 4
"""Arrays of a dtype from which on they are joined; to join fewer costs more."""


class Run(NamedTuple):
    """Arrays of one shape and dtype, which lie behind one another."""

    buffer: int
    start: int | None  # first column; None for one array that is the buffer itself
    end: int
    shape: tuple[int, ...]  # of each
    places: tuple[int, ...]  # of each among all arrays that were packed


class Packed:
    """Arrays as a few buffers; JAX knows it as a tree of them.

    `runs` say where the arrays lie in the buffers, and `structure` is their tree, which can be
    hashed. Joined arrays lie behind one another in buffers of shape (1, columns). If several
    devices pack arrays that lead with their own rows, the buffers together have a row for each
    device. If `jax.lax.scan` stacks buffers, they lead with the number of its steps.
    """

    __slots__ = ("buffers", "runs", "structure")

    def __init__(self, buffers: Sequence[Any], runs: tuple[Run, ...], structure: Any) -> None:
        self.buffers, self.runs, self.structure = buffers, runs, structure

    def take_apart(self, buffers: Sequence[Any]) -> list[Any]:
        """Return the arrays in `buffers`, or in what was made of them, as views if possible."""
        found: dict[int, Any] = {}
        for run in self.runs:
            found.update(zip(run.places, _read_run(buffers[run.buffer], run), strict=True))
        return [found[place] for place in range(len(found))]


def _read_run(buffer: Any, run: Run) -> Any:
    _, start, end, shape, places = run
    if start is None:
        return (buffer,)
    *steps, devices, _ = buffer.shape
    if devices == 1 and not steps:
        return buffer[0, start:end].reshape(len(places), *shape)
    ends = range(start, end + 1, (end - start) // len(places))
    shape = (*steps, devices * shape[0], *shape[1:])
    return [buffer[..., first:last].reshape(shape) for first, last in itertools.pairwise(ends)]


def pack(
    arrays: Sequence[Any],
    join: Callable[[list[Any]], Any],
    structure: Any = None,
    *,
    always: bool = False,
) -> Packed:
    """Return arrays of numpy, or of jax within a function that it compiles, in buffers.

    `join` makes one flat array of several of one dtype. With `always`, large arrays are joined as
    well, and few of a dtype.
    """
    joined: dict[Any, dict[tuple[int, ...], list[int]]] = {}
    small = [_is_joined(array, always) for array in arrays]
    counts = Counter(array.dtype for array, is_small in zip(arrays, small, strict=True) if is_small)
    others = []
    for place, array in enumerate(arrays):
        if small[place] and (always or counts[array.dtype] >= _FEW):
            shapes = joined.setdefault(array.dtype, {})
            shapes.setdefault(tuple(array.shape), []).append(place)
        else:
            others.append(place)
    buffers, runs = [], []
    for shapes in joined.values():
        start = 0
        for shape, places in shapes.items():
            end = start + math.prod(shape) * len(places)
            runs.append(Run(len(buffers), start, end, shape, tuple(places)))
            start = end
        order = itertools.chain(*shapes.values())
        buffers.append(join([arrays[place] for place in order])[None])
    runs += [Run(len(buffers) + k, None, 0, (), (place,)) for k, place in enumerate(others)]
    return Packed([*buffers, *(arrays[place] for place in others)], tuple(runs), structure)


def _is_joined(array: Any, always: bool) -> bool:
    """Return whether the dtype is one of numpy's own and, unless `always`, the array is small."""
    dtype, size = array.dtype, math.prod(array.shape)
    is_plain = isinstance(dtype, np.dtype) and dtype.char in PLAIN
    return is_plain and (always or 0 < size * dtype.itemsize <= _SMALL)
