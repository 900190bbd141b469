"""How the physics of an episode are drawn by a user's function, in either of its two forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from gymbridge.errors import EnvContractError, SimulationError, nearest
from gymbridge.jax_env.model import ModelLeaves, Physics, flatten_named
from gymbridge.jax_env.tracing import KEY
from gymbridge.private.jax import fixes_draws

__all__ = ["PhysicsDraw"]


class PhysicsDraw:
    """Function from a key to the leaves of a model that vary.

    The user's function is (model, key) -> physics by dotted path; or, as Brax and Playground have
    it, (model, (1, 2) keys) -> (model with leaves (1, ...), the same tree with 0 for these leaves
    and None for the others).

    Attributes:
        shapes: Shapes and dtypes of the leaves that vary, by dotted path.
    """

    def __init__(self, leaves: ModelLeaves, function: Callable[..., Any]) -> None:
        self._leaves, self._function = leaves, function
        self._model, self._own = leaves.model, leaves.own
        self._is_batched = self._takes_batches(KEY)
        self.shapes: Physics = jax.eval_shape(self, KEY)
        self._check_leaves()
        if fixes_draws(self, KEY):
            raise EnvContractError(
                "`randomization_fn` must draw with `jax.random` and the key that it gets, but it "
                "returned other values when it was traced again; a draw with `np.random` would be "
                "the same in all episodes."
            )

    def __call__(self, key: jax.Array) -> Physics:
        """Return the leaves that vary, drawn with this key."""
        return self._draw_batched(key) if self._is_batched else self._draw_named(key)

    def _takes_batches(self, key: Any) -> bool:
        """Return whether the function takes a batch of keys, found out by tracing it."""
        batched = self._trace(jax.ShapeDtypeStruct((1, *key.shape), key.dtype))
        if isinstance(batched, type) and issubclass(batched, tuple):
            return True
        also = ""
        if isinstance(batched, Exception):
            also = f", and with a batch of one key {_describe(batched)}"
        del batched  # The traceback of an error keeps this frame, and the frame the model, alive.
        named = self._trace(key)
        if isinstance(named, type):
            return False
        raise SimulationError(
            f"`randomization_fn` cannot be traced; with one key it raised {_describe(named)}{also}."
        ) from named

    def _trace(self, keys: Any) -> type | Exception:
        """Return the type of what the function returns for keys of these shapes, or its error."""
        found: list[type] = []
        try:
            jax.eval_shape(lambda k: found.append(type(self._function(self._model, k))), keys)
        except Exception as error:  # A function of the other form raises.
            return error
        return found[0]

    def _draw_named(self, key: jax.Array) -> Physics:
        physics = self._function(self._model, key)
        if not isinstance(physics, Mapping):
            raise EnvContractError(
                "`randomization_fn` must return a dict by dotted path, or, for a batch of keys, a "
                f"tuple of model and axes, got {type(physics).__name__}."
            )
        for name in physics:
            if name not in self._own:
                raise EnvContractError(
                    f"`randomization_fn` must return leaves of the model, got {name!r}; "
                    f"{nearest(str(name), self._own)}"
                )
        return {name: _to_array(name, value) for name, value in physics.items()}

    def _draw_batched(self, key: jax.Array) -> Physics:
        returned = self._function(self._model, key[None])
        if len(returned) != 2:
            raise EnvContractError(
                "`randomization_fn` must return a tuple of model and axes, got one of "
                f"{len(returned)} entries."
            )
        model, axes = returned
        named, structure = flatten_named(model)
        if structure != self._leaves.structure:
            odd = sorted({name for name, _ in named} ^ self._own.keys())
            found = f"but only one of them has {odd[0]!r}" if odd else f"got {type(model)}"
            raise EnvContractError(
                f"`randomization_fn` must return a model of the structure that it got, {found}."
            )
        return {
            name: _take_row(name, self._own[name], leaf, axis)
            for (name, leaf), axis in zip(named, self._read_axes(axes), strict=True)
            if axis is not None or not _is_same(leaf, self._own[name])
        }

    def _read_axes(self, axes: Any) -> list[Any]:
        """Return the axis of each leaf, or None; like `jax.vmap`'s, they may be a prefix."""
        like = self._leaves.replace({name: name for name in self._own})
        try:
            marks = jax.tree.broadcast(axes, like, is_leaf=_is_none)
        except ValueError as error:
            raise EnvContractError(
                "`randomization_fn` must return axes in the structure of the model, or in a prefix "
                f"of it, got {type(axes).__name__}."
            ) from error
        return jax.tree.leaves(marks, is_leaf=_is_none)

    def _check_leaves(self) -> None:
        if not self.shapes:
            raise EnvContractError(
                "`randomization_fn` must vary a leaf of the model; it varies none."
            )
        for name, leaf in self.shapes.items():
            if name in self._leaves.doubled:
                raise EnvContractError(
                    "`randomization_fn` must vary leaves with a unique path, but two leaves of the "
                    f"model have the path {name!r}."
                )
            if self._own[name] is None:
                raise EnvContractError(
                    f"`randomization_fn` must vary leaves that the model has, but {name!r} is None."
                )
            like = jax.eval_shape(jnp.asarray, self._own[name])
            if not jnp.issubdtype(like.dtype, jnp.floating):
                raise EnvContractError(
                    f"`randomization_fn` must vary floats, got {name!r}, which is {like.dtype}."
                )
            if (leaf.shape, leaf.dtype) != (like.shape, like.dtype):
                raise EnvContractError(
                    f"`randomization_fn` must keep shape and dtype, but {name!r} is "
                    f"{like.dtype}{list(like.shape)} and came back as {leaf.dtype}"
                    f"{list(leaf.shape)}."
                )


def _is_none(leaf: Any) -> bool:
    return leaf is None


def _to_array(name: Any, value: Any) -> jax.Array:
    """Return a value as an array without a weak type."""
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise EnvContractError(
            f"`randomization_fn` must return arrays, but {name!r} is {value!r}."
        ) from error
    return jnp.asarray(array, array.dtype)


def _is_same(leaf: Any, own: Any) -> bool:
    """Return whether a leaf is the model's own, as far as a trace can know."""
    if leaf is own or isinstance(leaf, Tracer):
        return leaf is own
    return np.array_equal(leaf, own)


def _take_row(name: str, own: Any, leaf: Any, axis: Any) -> jax.Array:
    """Return the row of a leaf drawn for one key; without an axis all of it, as in `jax.vmap`."""
    if axis is None:
        return _to_array(name, leaf)
    shape = np.shape(own)
    ndim = len(shape) + 1
    if not isinstance(axis, int) or not -ndim <= axis < ndim:
        raise EnvContractError(
            f"`randomization_fn` must return axes that are integers below {ndim} or None, but that "
            f"of {name!r} is {axis!r}."
        )
    at = axis % ndim
    wanted = (*shape[:at], 1, *shape[at:])
    if np.shape(leaf) != wanted:
        raise EnvContractError(
            f"`randomization_fn` must keep shape and dtype, but {name!r}, for a batch of one key, "
            f"must have shape {wanted} and came back with {np.shape(leaf)}."
        )
    return _to_array(name, jnp.take(leaf, 0, at))


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
