"""Float leaves of a carry as one array: one gradient instead of dozens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gymbridge.core.episode import Carry

__all__ = ["Packing", "is_float"]


class Packing:
    """Float leaves of a carry as one array.

    Args:
        carry: Shapes and dtypes of a carry.
        names: Name of each leaf that is packed, and None for the others, in their order.

    Attributes:
        dtype: Dtype of the array, which can hold every leaf that is packed.
        size: Number of its columns.
        fields: Columns of each leaf, by name.
    """

    def __init__(self, carry: Carry, names: list[str | None]) -> None:
        leaves, self._structure = jax.tree.flatten(carry)
        self._is_packed = [name is not None for name in names]
        floats = [leaf for leaf, name in zip(leaves, names, strict=True) if name is not None]
        self._floats = floats
        self.dtype = jnp.result_type(*[leaf.dtype for leaf in floats])
        sizes = [int(np.prod(leaf.shape[1:], dtype=int)) for leaf in floats]
        self._ends = np.cumsum(sizes).tolist()
        starts = [0, *self._ends[:-1]]
        self.size = self._ends[-1]
        self.fields = {
            name: slice(start, end)
            for name, start, end in zip(filter(None, names), starts, self._ends, strict=True)
        }

    def pack(self, carry: Carry) -> tuple[jax.Array, tuple[Any, ...]]:
        """Return the leaves that are packed, (num_envs, size), and the others."""
        leaves = [*zip(jax.tree.leaves(carry), self._is_packed, strict=True)]
        floats = [leaf for leaf, is_packed in leaves if is_packed]
        columns = [leaf.reshape(leaf.shape[0], -1).astype(self.dtype) for leaf in floats]
        others = tuple(leaf for leaf, is_packed in leaves if not is_packed)
        return jnp.concatenate(columns, 1), others

    def unpack(self, packed: Any, rest: tuple[Any, ...]) -> Carry:
        """Return the carry with these float leaves, (num_envs, size), and these others."""
        columns = jnp.split(packed, self._ends[:-1], 1)
        floats: Iterator[Any] = (
            column.reshape(like.shape).astype(like.dtype)
            for column, like in zip(columns, self._floats, strict=True)
        )
        others = iter(rest)
        leaves = [next(floats) if is_packed else next(others) for is_packed in self._is_packed]
        return jax.tree.unflatten(self._structure, leaves)


def is_float(leaf: Any) -> bool:
    """Return whether an array, or whatever has the `dtype` of one, can have a gradient."""
    return jnp.issubdtype(leaf.dtype, jnp.floating)
