"""The adapter to jax arrays: passed on as they are, or copied to and from a host simulator."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space
from jax.core import Tracer

from gymbridge.core.arrays.adapter import ArrayAdapter, ArrayReader, identity
from gymbridge.core.arrays.jax_devices import find_jax_device
from gymbridge.core.arrays.packing import Packed, pack
from gymbridge.core.devices import Device, Place
from gymbridge.core.spaces import cast_space
from gymbridge.errors import ArgumentError, ArgumentTypeError

__all__ = [
    "TracedReader",
    "join_columns",
    "make_jax_adapter",
    "pack_arrays",
    "pack_tree",
    "unpack_tree",
    "upload_packed",
]

jax.tree_util.register_dataclass(Packed, ["buffers"], ["runs", "structure"])


def make_jax_adapter(native: str, device: Place | None) -> ArrayAdapter:
    """Return the adapter to a user of jax arrays.

    Nobody can write into jax arrays, and a compiled step returns new ones, so these are passed on
    as they are. The arrays of a host simulator are copied to the device in one transfer.
    """
    to_space = partial(cast_space, to_dtype=jax.dtypes.canonicalize_dtype)
    adapt = partial(ArrayAdapter, "jax", read_mask=_read_mask, to_space=to_space)
    if native == "numpy":
        place = find_jax_device(device or Device("cpu", 0))
        to_user = partial(upload_packed, place=place)
        return adapt(to_user, partial(_HostReader, place=place), device=place)
    place = find_jax_device(device)
    # From a copy, since jax may share memory with what it is given.
    reader = partial(_JaxReader, place=place, upload=lambda x: jax.device_put(x.copy(), place))
    return adapt(identity, reader, library=jnp, device=place)


def _read_mask(name: str, mask: Any) -> Any:
    if isinstance(mask, np.ndarray):
        return mask
    if not isinstance(mask, jax.Array):
        raise ArgumentTypeError(
            f"{name} must be a jax.Array or a numpy array, got {type(mask).__name__}."
        )
    try:
        return np.asarray(mask)
    except (TypeError, RuntimeError) as error:  # Tracers, random keys and donated arrays raise.
        raise ArgumentTypeError(f"{name} must hold bools, got {mask.aval}: {error}") from error


def pack_tree(tree: Any) -> Any:
    """Return a tree in a few buffers, or itself if none can be joined, while JAX compiles."""
    leaves, structure = jax.tree.flatten(tree)
    packed = pack(leaves, _join, structure)
    return packed if len(packed.buffers) < len(leaves) else tree


def _join(arrays: list[Any]) -> jax.Array:
    """Return arrays one behind another in a flat one."""
    runs = [[*run] for _, run in itertools.groupby(arrays, id)]
    repeated = [jnp.broadcast_to(run[0], (len(run), *run[0].shape)) for run in runs]
    return join_columns([array.reshape(1, -1) for array in repeated])[0]


def join_columns(arrays: list[Any]) -> jax.Array:
    """Return arrays (rows, ...) with two axes and one dtype beside one another."""
    return jax.lax.platform_dependent(
        *arrays, cpu=_write, default=lambda *arrays: jnp.concatenate(arrays, 1)
    )


def _write(*arrays: jax.Array) -> jax.Array:
    """Write each array in its place, since XLA concatenates element by element on a CPU."""
    width = sum(array.shape[1] for array in arrays)
    end, joined = 0, jnp.zeros((arrays[0].shape[0], width), arrays[0].dtype)
    for array in jax.lax.optimization_barrier(arrays):
        joined = jax.lax.dynamic_update_slice(joined, array, (0, end))
        end += array.shape[1]
    return joined


def pack_arrays(tree: Any) -> Packed:
    """Return copies of a tree of numpy arrays in a few buffers, in the dtypes that JAX has."""
    leaves, structure = jax.tree.flatten(tree)
    leaves = [leaf.astype(jax.dtypes.canonicalize_dtype(leaf.dtype)) for leaf in leaves]
    return pack(leaves, partial(np.concatenate, axis=None), structure, always=True)


def unpack_tree(packed: Any) -> Any:
    """Return the tree of `pack_tree` or `pack_arrays`, within a function that JAX compiles."""
    if not isinstance(packed, Packed):
        return packed
    return jax.tree.unflatten(packed.structure, packed.take_apart(packed.buffers))


@cache
def _make_unpacker(place: Any) -> Callable[[Packed], Any]:
    """Return `unpack_tree` of buffers on the host to a device.

    JAX puts an argument there more quickly than `jax.device_put` does. On a CPU it runs a few
    cheap operations at once, and leaves more to a thread.
    """
    sharding = jax.sharding.SingleDeviceSharding(place)
    return jax.jit(unpack_tree, in_shardings=sharding)


def upload_packed(tree: Any, place: Any) -> Any:
    """Return a tree of numpy arrays as jax arrays on a device, in one transfer for each dtype."""
    return _make_unpacker(place)(pack_arrays(tree))


class _JaxReader(ArrayReader):
    def __init__(self, space: Space[Any], lead: tuple[int, ...], **options: Any) -> None:
        super().__init__(space, lead, **options)
        self._convert = jax.jit(self._fit_traced)
        self._is_spread = hasattr(self._place, "mesh")

    def _check(self, actions: Any) -> None:
        _check_numbers(actions)
        if isinstance(actions, Tracer):
            raise ArgumentTypeError(
                "`actions` must hold values, got a tracer: a batch has a state and cannot be "
                "stepped inside a function that jax transforms."
            )
        if actions.is_deleted():
            raise ArgumentTypeError("`actions` must hold values, got an array that was donated.")
        if actions.devices() != getattr(self._place, "device_set", {self._place}):
            raise ArgumentError(
                f"`actions` must be on {self._place}, where the environments are, got "
                f"{sorted(map(str, actions.devices()))}; use jax.device_put(actions, envs.device)."
            )

    def _cast(self, actions: jax.Array) -> Any:
        if self._is_spread:  # The same devices may come in another order.
            actions = jax.device_put(actions, self._place)
        self._check_dtype(actions)
        # A weak type would compile the step once more.
        is_ready = self._is_float and actions.dtype == self._dtype and not actions.weak_type
        return actions if is_ready else self._convert(actions)

    def _fit_traced(self, actions: jax.Array) -> jax.Array:
        """Return actions as the space has them; integers are clipped in a dtype that holds both."""
        if self._is_float:
            return actions.astype(self._dtype)
        wide = jnp.iinfo(jax.dtypes.canonicalize_dtype(np.int64))
        if actions.dtype.kind == "u":
            actions = jnp.minimum(actions, min(wide.max, jnp.iinfo(actions.dtype).max))
        bounds = np.clip((self._low, self._high), wide.min, wide.max).astype(wide.dtype)
        return jnp.clip(actions.astype(wide.dtype), *bounds).astype(self._dtype)


class _HostReader(_JaxReader):
    """Reads for a simulator on the host: once they are there, they are like numpy actions."""

    def _cast(self, actions: jax.Array) -> np.ndarray:
        return self(np.asarray(actions))


class TracedReader(_JaxReader):
    """Reads inside a function that JAX transforms, where actions have a shape and no values yet."""

    def _check(self, actions: Any) -> None:
        _check_numbers(actions)


def _check_numbers(actions: Any) -> None:
    if not isinstance(actions, jax.Array):
        raise ArgumentTypeError(
            "`actions` must be a jax.Array or a numpy array with `arrays='jax'`, got "
            f"{type(actions).__name__}; use jax.numpy.asarray(actions)."
        )
    if jnp.issubdtype(actions.dtype, jax.dtypes.extended):
        raise ArgumentTypeError(f"`actions` must hold numbers, got {actions.dtype}.")
