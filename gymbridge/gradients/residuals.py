"""What a backward pass needs of a step, with its small arrays joined: fewer arrays to hand over.

The vjp of a physics step holds some hundreds to a thousand arrays. Each that leaves a compiled
function and enters another costs about as long as the arithmetic on a small one. Joined they are
one for each dtype, at the price of a copy, which only small ones are worth.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["Joined"]

_SMALL = 1 << 16
"""Bytes up to which an array is joined with others."""


@jax.tree_util.register_pytree_node_class
class Joined:
    """A tree of arrays inside compiled functions, as few arrays between them.

    Args:
        arrays: Joined arrays, then the others as they are.
        layout: Structure of the tree, and dtype and shape of each leaf that is joined.
    """

    def __init__(self, arrays: tuple[Any, ...], layout: tuple[Any, ...]) -> None:
        self._arrays, self._layout = arrays, layout

    @classmethod
    def of(cls, tree: Any) -> Joined:
        """Return a tree of arrays of one device, joined."""
        leaves, structure = jax.tree.flatten(tree)
        kinds = tuple((leaf.dtype, leaf.shape) if _is_small(leaf) else None for leaf in leaves)
        groups: dict[Any, list[Any]] = {}
        for leaf, kind in zip(leaves, kinds, strict=True):
            if kind:
                groups.setdefault(leaf.dtype, []).append(leaf.ravel())
        others = (leaf for leaf, kind in zip(leaves, kinds, strict=True) if not kind)
        return cls((*map(jnp.concatenate, groups.values()), *others), (structure, kinds))

    def split(self) -> Any:
        """Return the tree."""
        structure, kinds = self._layout
        dtypes = dict.fromkeys(kind[0] for kind in kinds if kind)
        joined = dict(zip(dtypes, self._arrays, strict=False))
        others = iter(self._arrays[len(dtypes) :])
        starts = dict.fromkeys(dtypes, 0)
        leaves = []
        for kind in kinds:
            if not kind:
                leaves.append(next(others))
                continue
            dtype, shape = kind
            start, starts[dtype] = starts[dtype], starts[dtype] + math.prod(shape)
            part = jax.lax.slice_in_dim(joined[dtype], start, starts[dtype])
            leaves.append(part.reshape(shape))
        return jax.tree.unflatten(structure, leaves)

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the arrays and the layout, for jax."""
        return self._arrays, self._layout

    @classmethod
    def tree_unflatten(cls, layout: tuple[Any, ...], arrays: tuple[Any, ...]) -> Joined:
        """Return what `tree_flatten` was called on."""
        return cls(arrays, layout)


def _is_small(leaf: Any) -> bool:
    is_number = not jnp.issubdtype(leaf.dtype, jax.dtypes.extended)
    return is_number and leaf.size * leaf.dtype.itemsize <= _SMALL
