"""Float leaves of a carry as one array: one gradient instead of dozens."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gymbridge.core.episode import Carry

__all__ = ["Packing", "is_float"]


class Packing:
    """Float leaves of a carry as one array.

    `names` has the name of each leaf that is packed, and None for the others, in their order.

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
        self._ends = tuple(itertools.accumulate(sizes, initial=0))
        self.size = self._ends[-1]
        columns = zip(filter(None, names), itertools.pairwise(self._ends), strict=True)
        self.fields = {name: slice(*ends) for name, ends in columns}

    def pack(self, carry: Carry) -> tuple[jax.Array, tuple[Any, ...]]:
        """Return the leaves that are packed, (num_envs, size), and the others."""
        leaves = [*zip(jax.tree.leaves(carry), self._is_packed, strict=True)]
        floats = [leaf for leaf, is_packed in leaves if is_packed]
        columns = [leaf.reshape(leaf.shape[0], -1).astype(self.dtype) for leaf in floats]
        others = tuple(leaf for leaf, is_packed in leaves if not is_packed)
        return _join_columns(self._ends, columns), others

    def unpack(self, packed: Any, rest: tuple[Any, ...]) -> Carry:
        """Return the carry with these float leaves, (num_envs, size), and these others."""
        columns = _split_columns(self._ends, packed)
        floats: Iterator[Any] = (
            column.reshape(like.shape).astype(like.dtype)
            for column, like in zip(columns, self._floats, strict=True)
        )
        others = iter(rest)
        leaves = [next(floats) if is_packed else next(others) for is_packed in self._is_packed]
        return jax.tree.unflatten(self._structure, leaves)


def _split(ends: tuple[int, ...], joined: jax.Array) -> list[jax.Array]:
    return jnp.split(joined, ends[1:-1], 1)


def _join(ends: tuple[int, ...], columns: list[jax.Array]) -> jax.Array:
    return jax.lax.platform_dependent(
        *columns, cpu=partial(_write, ends), default=lambda *columns: jnp.concatenate(columns, 1)
    )


def _write(ends: tuple[int, ...], *columns: jax.Array) -> jax.Array:
    """Write each array in its place, since XLA concatenates element by element on a CPU."""
    joined = jnp.zeros((columns[0].shape[0], ends[-1]), columns[0].dtype)
    for start, column in zip(ends[:-1], jax.lax.optimization_barrier(columns), strict=True):
        joined = jax.lax.dynamic_update_slice(joined, column, (0, start))
    return joined


# The gradient of one is the other, where JAX would add up an array of the whole size for each leaf.
_split_columns, _join_columns = (
    jax.custom_vjp(function, nondiff_argnums=(0,)) for function in (_split, _join)
)
_split_columns.defvjp(
    lambda ends, joined: (_split(ends, joined), None),
    lambda ends, _, gradients: (_join(ends, gradients),),
)
_join_columns.defvjp(
    lambda ends, columns: (_join(ends, columns), None),
    lambda ends, _, gradient: (_split(ends, gradient),),
)


def is_float(leaf: Any) -> bool:
    """Return whether an array, or whatever has the `dtype` of one, can have a gradient."""
    return jnp.issubdtype(leaf.dtype, jnp.floating)
