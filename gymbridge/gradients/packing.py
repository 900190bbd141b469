"""Float leaves of a carry as one array: one gradient instead of dozens."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gymbridge.core.arrays.jax import join_columns
from gymbridge.core.episode import Carry

__all__ = ["Packing", "is_float"]


class Packing:
    """Float leaves of a carry as one array.

    `names` has the name of each leaf that is packed, and None for the others, in their order.

    Attributes:
        fields: Columns of each leaf, by name.
    """

    def __init__(self, carry: Carry, names: list[str | None]) -> None:
        leaves, self._structure = jax.tree.flatten(carry)
        named = {place: name for place, name in enumerate(names) if name is not None}
        self._floats = floats = {place: leaves[place] for place in named}
        self._dtype = jnp.result_type(*[leaf.dtype for leaf in floats.values()])
        sizes = [int(np.prod(leaf.shape[1:], dtype=int)) for leaf in floats.values()]
        self._ends = tuple(itertools.accumulate(sizes, initial=0))
        columns = zip(named.values(), itertools.pairwise(self._ends), strict=True)
        self.fields = {name: slice(*ends) for name, ends in columns}

    def pack(self, carry: Carry) -> tuple[jax.Array, tuple[Any, ...]]:
        """Return the leaves that are packed, (num_envs, columns), and the others."""
        others = dict(enumerate(jax.tree.leaves(carry)))
        floats = [others.pop(place) for place in self._floats]
        columns = [leaf.reshape(leaf.shape[0], -1).astype(self._dtype) for leaf in floats]
        return _join_columns(self._ends, columns), tuple(others.values())

    def unpack(self, packed: Any, rest: tuple[Any, ...]) -> Carry:
        """Return the carry with these float leaves, (num_envs, columns), and these others."""
        floats, others = iter(_split_columns(self._ends, packed)), iter(rest)
        leaves = [
            next(others) if like is None else next(floats).reshape(like.shape).astype(like.dtype)
            for like in map(self._floats.get, range(self._structure.num_leaves))
        ]
        return jax.tree.unflatten(self._structure, leaves)


def _split(ends: tuple[int, ...], joined: jax.Array) -> list[jax.Array]:
    return jnp.split(joined, ends[1:-1], 1)


def _join(ends: tuple[int, ...], columns: list[jax.Array]) -> jax.Array:
    return join_columns(columns)


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
