"""The arrays of a batch between two calls by name, as a snapshot has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gymbridge.core.episode import Carry, EpisodeRule, ResetRequest
from gymbridge.errors import ArgumentError
from gymbridge.jax_env.simulator import JaxSimulator
from gymbridge.jax_env.tracing import is_key, make_unique, name_paths

__all__ = ["CarryLeaves", "carry_shapes", "name_leaves"]


def carry_shapes(rule: EpisodeRule[JaxSimulator]) -> Carry:
    """Return the shapes and dtypes of a batch's carry; this traces its `reset`."""
    num_envs = rule.simulator.num_envs
    mask, values = jnp.ones(num_envs, bool), np.zeros(num_envs, np.uint32)
    return jax.eval_shape(lambda: rule.reset(None, mask, ResetRequest(values, mask)).carry)


def name_leaves(simulator: JaxSimulator, carry: Carry, prefix: str = "") -> list[str]:
    """Return a name for each leaf of a carry, with a prefix for the environment's own."""
    own = [f"{prefix}{name}" for name in simulator.leaf_names()]
    others = name_paths(carry)[len(own) :]
    others = [name.removeprefix("state.").removeprefix("rows.") for name in others]
    return make_unique([*own, *others])


class CarryLeaves:
    """The leaves of a batch's carries as plain arrays by name; typed keys become their data."""

    def __init__(self, rule: EpisodeRule[JaxSimulator]) -> None:
        self._place = rule.simulator.device
        shapes = carry_shapes(rule)
        self._names = name_leaves(rule.simulator, shapes, "state.")
        self._impls: list[Any] = []
        self._structure = jax.tree.structure(shapes)
        self._shapes = jax.eval_shape(self._note_keys, shapes)
        self._take = jax.jit(_take)
        self._copy = jax.jit(lambda arrays: [jnp.copy(array) for array in arrays])

    def take(self, carry: Carry) -> dict[str, jax.Array]:
        """Return copies of the leaves."""
        return dict(zip(self._names, self._take(carry), strict=True))

    def give(self, leaves: Mapping[str, Any]) -> Carry:
        """Return the carry with copies of leaves, on the batch's device."""
        wanted = dict(zip(self._names, self._shapes, strict=True))
        for name in {**wanted, **leaves}:
            here, there = (_name_shape(some.get(name)) for some in (wanted, leaves))
            if here != there:
                raise ArgumentError(
                    f"`state` must be of a batch like this one, whose leaf {name!r} is {here}; in "
                    f"the snapshot it is {there}."
                )
        placed = jax.device_put([leaves[name] for name in self._names], self._place)
        arrays = [
            array if impl is None else jax.random.wrap_key_data(array, impl=impl)
            for array, impl in zip(self._copy(placed), self._impls, strict=True)
        ]
        return jax.tree.unflatten(self._structure, arrays)

    def _note_keys(self, carry: Carry) -> list[Any]:
        self._impls = [
            jax.random.key_impl(leaf) if is_key(leaf) else None for leaf in jax.tree.leaves(carry)
        ]
        return _take(carry)


def _take(carry: Carry) -> list[Any]:
    return [
        jax.random.key_data(leaf) if is_key(leaf) else jnp.copy(leaf)
        for leaf in jax.tree.leaves(carry)
    ]


def _name_shape(array: Any) -> str:
    if not hasattr(array, "dtype"):
        return "missing" if array is None else f"not an array but a {type(array).__name__}"
    if hasattr(array, "is_deleted") and array.is_deleted():
        return "an array that was donated"
    return f"{array.dtype}{list(array.shape)}"
