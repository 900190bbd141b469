"""A batch over several devices: each runs the rule on its own rows, since no row needs another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

__all__ = ["find_sharding", "spread"]


def spread(
    function: Callable[..., Any], place: Any, *, in_axes: Any = 0, out_axes: Any = 0
) -> Callable[..., Any]:
    """Return a function of trees of the rows of one device as a function of the whole batch.

    `place` is a `jax.Device` or `jax.sharding.NamedSharding`. `in_axes` is the axis of the
    environments in the arguments, one number or a tuple, and `out_axes` that in the result.
    """
    if not hasattr(place, "mesh"):
        return function

    def find_spec(axis: int) -> Any:
        return jax.sharding.PartitionSpec(*[None] * axis, *place.spec)

    specs = {
        "in_specs": jax.tree.map(find_spec, in_axes),
        "out_specs": jax.tree.map(find_spec, out_axes),
    }
    # No value is the same on all devices, so there is nothing to check.
    return jax.shard_map(function, mesh=place.mesh, **specs, check_vma=False)


def find_sharding(place: Any) -> Any:
    """Return where outputs are that lead with the environments, as `jax.jit` takes it."""
    return place if hasattr(place, "mesh") else jax.sharding.SingleDeviceSharding(place)
