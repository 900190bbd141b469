"""numpy, torch and jax.numpy, as wrappers compute with them, and trees of their arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from gymbridge.core.arrays.adapter import identity

__all__ = ["ArrayLibrary", "find_library", "map_leaves", "map_named", "select", "spread"]


class ArrayLibrary(NamedTuple):
    """One library: functions that have one name in all three are called on `xp`.

    The dtypes ``int`` and ``float`` are the library's own, 64 bits except in jax without x64.
    """

    xp: Any
    cast: Callable[[Any, Any], Any]  # (array, dtype) -> array
    copy: Callable[[Any], Any]  # array -> the same values, which a user may write into or donate
    detach: Callable[[Any], Any]  # array -> the same values without a graph
    compile: Callable[[Callable[..., Any]], Callable[..., Any]]  # two static arguments come first
    put: Callable[[Any, Any, int], Any]  # (values, device, num_envs) -> new array
    to_numpy: Callable[[Any], np.ndarray]  # array -> a copy of its values


@cache
def find_library(arrays: str) -> ArrayLibrary:
    """Return the library of a kind of arrays: "numpy", "torch" or "jax"."""
    return {"numpy": _numpy, "torch": _torch, "jax": _jax}[arrays]()


def _numpy() -> ArrayLibrary:
    def put(values: Any, device: Any, num_envs: int) -> np.ndarray:
        return np.array(values)

    return ArrayLibrary(np, np.ndarray.astype, np.copy, identity, identity, put, np.array)


def _torch() -> ArrayLibrary:
    import torch
    from torch import Tensor

    def put(values: Any, device: Any, num_envs: int) -> Tensor:
        is_tensor = isinstance(values, Tensor)
        return values.to(device, copy=True) if is_tensor else torch.tensor(values, device=device)

    def to_numpy(array: Tensor) -> np.ndarray:
        return array.detach().cpu().numpy().copy()

    return ArrayLibrary(torch, Tensor.to, torch.clone, torch.detach, identity, put, to_numpy)


def _jax() -> ArrayLibrary:
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    def put(values: Any, device: Any, num_envs: int) -> jax.Array:
        # A copy, since the user may write into a mask before JAX has read it.
        array = jnp.array(values)
        if isinstance(device, NamedSharding) and array.shape[:1] != (num_envs,):
            device = NamedSharding(device.mesh, PartitionSpec())
        return jax.device_put(array, device)

    compile_with = partial(jax.jit, static_argnums=(0, 1))
    return ArrayLibrary(jnp, jnp.astype, jnp.copy, identity, compile_with, put, np.array)


def spread(mask: Any, like: Any) -> Any:
    """Return a mask, (num_envs,), with as many axes as an array that leads with num_envs."""
    return mask.reshape(mask.shape + (1,) * (like.ndim - 1))


def select(library: ArrayLibrary, mask: Any, chosen: Any, others: Any) -> Any:
    """Return a tree with the rows of `chosen` under the mask, and those of `others` elsewhere."""

    def pick(left: Any, right: Any) -> Any:
        return library.xp.where(spread(mask, left), left, right)

    return map_leaves(pick, chosen, others)


def map_leaves(convert: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Return a dict of what a function makes of each leaf, given also that leaf of the others."""
    if not isinstance(tree, dict):
        return convert(tree, *others)
    return {key: map_leaves(convert, tree[key], *(other[key] for other in others)) for key in tree}


def map_named(convert: Callable[[str, Any], Any], tree: Any, name: str) -> Any:
    """Return a tree of dicts and named tuples with every array converted, given its dotted path."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: map_named(convert, tree[key], f"{name}.{key}") for key in tree}
    if isinstance(tree, tuple):
        fields: Any = tree
        return type(fields)(**map_named(convert, fields._asdict(), name))
    return convert(name, tree)
