"""Functions for values that an environment returned: copy, take apart, compare and describe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

__all__ = [
    "arrays_in",
    "attempt",
    "changed_infos",
    "contains",
    "describe",
    "entries",
    "fits",
    "infos_of",
    "is_array",
    "read",
    "read_mode",
    "same",
    "to_numpy",
]

_LONGEST = 100
_CLOSE = {"rtol": 1e-5, "atol": 1e-6, "equal_nan": True}


def is_array(value: Any) -> bool:
    """Return whether a value is an array of numpy, JAX, torch or another library."""
    # All three are asked for, since spaces have the first two.
    return hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "__array__")


def read(envs: Any, name: str) -> Any:
    """Return an attribute, or None if there is none or if reading it raises."""
    found = attempt(getattr, envs, name, None)  # A property may raise anything.
    return None if isinstance(found, Exception) else found


def attempt(function: Callable[..., Any], *args: Any, **given: Any) -> Any:
    """Return what a call returns, or the error that it raises."""
    try:
        return function(*args, **given)
    except Exception as error:
        return error


def read_mode(envs: Any) -> AutoresetMode | None:
    """Return the autoreset mode that `metadata` has, or None if it has none."""
    metadata = read(envs, "metadata")
    mode = metadata.get("autoreset_mode") if isinstance(metadata, Mapping) else None
    return mode if isinstance(mode, AutoresetMode) else None


def to_numpy(tree: Any) -> Any:
    """Return a copy of a tree with all of its arrays in numpy; other objects are not copied."""
    if isinstance(tree, Mapping):
        return {key: to_numpy(value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):  # `GraphInstance` is one.
        return type(tree)(*map(to_numpy, tree))
    if isinstance(tree, tuple | list):
        return tuple(map(to_numpy, tree))
    if isinstance(tree, np.ndarray) and tree.dtype == object:
        return np.asarray(np.frompyfunc(to_numpy, 1, 1)(tree))
    if is_array(tree) and not isinstance(tree, np.generic):
        tensor: Any = tree
        return np.array(tensor.detach().cpu().numpy() if hasattr(tree, "detach") else tree)
    return tree


def _leaves(space: gym.Space[Any], value: Any) -> Iterator[tuple[gym.Space[Any], Any]]:
    """Yield the parts of a value with their spaces; a Dict or Tuple where it has other parts."""
    if isinstance(space, spaces.Dict) and isinstance(value, Mapping) and {*value} == {*space}:
        parts = [(inner, value[key]) for key, inner in space.items()]
    elif isinstance(space, spaces.Tuple) and isinstance(value, tuple) and len(value) == len(space):
        parts = [*zip(space.spaces, value, strict=True)]
    else:
        yield space, value
        return
    for part in parts:
        yield from _leaves(*part)


def contains(space: gym.Space[Any], value: Any) -> bool:
    """Return whether a single value lies in its space, whatever the dtype of its numbers."""
    return all(_leaf_contains(*leaf) for leaf in _leaves(space, value))


def _leaf_contains(space: gym.Space[Any], value: Any) -> bool:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return False
    if isinstance(space, spaces.Box) and is_array(value):
        return space.contains(np.asarray(value).astype(space.dtype))
    return space.contains(np.asarray(value) if is_array(value) else value)


def same(left: Any, right: Any) -> bool:
    """Return whether two trees are equal; floats may differ by rounding, and NaN equals NaN."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, tuple | list) and isinstance(right, tuple | list):
        return len(left) == len(right) and all(map(same, left, right))
    if all(is_array(value) or isinstance(value, int | float) for value in (left, right)):
        return _same_arrays(np.asarray(left), np.asarray(right))
    if is_array(left) or is_array(right):
        return False
    return _same_objects(left, right)


def _same_objects(left: Any, right: Any) -> bool:
    is_equal = attempt(lambda: bool(left == right))  # Some objects cannot be compared.
    # Those without `__eq__` are equal to nothing but themselves.
    if type(left).__eq__ is object.__eq__ or isinstance(is_equal, Exception):
        return type(left) is type(right)
    return left is right or is_equal


def _same_arrays(left: np.ndarray, right: np.ndarray) -> bool:
    if left.shape != right.shape:
        return False
    if left.dtype == object or right.dtype == object:
        if left.ndim == 0:  # An int of more than 64 bits is one.
            return _same_objects(left[()], right[()])
        return all(map(same, left.flat, right.flat))
    are_floats = left.dtype.kind in "fc" and right.dtype.kind in "biufc"
    return np.array_equal(left, right) or (are_floats and np.allclose(left, right, **_CLOSE))


def arrays_in(tree: Any) -> Iterator[Any]:
    """Yield every array of a tree, whatever its library, also those inside arrays of objects."""
    if isinstance(tree, Mapping | tuple | list):
        for value in tree.values() if isinstance(tree, Mapping) else tree:
            yield from arrays_in(value)
    elif is_array(tree):
        yield tree
        if tree.dtype == object:
            yield from arrays_in(tree.tolist())


def entries(
    infos: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield the path, value and mask of each entry of infos, and of those of dicts in them."""
    for key, value in infos.items():
        if not str(key).startswith("_"):
            yield (*path, str(key)), value, infos.get(f"_{key}")
            if isinstance(value, Mapping):
                yield from entries(value, (*path, str(key)))


def infos_of(infos: Mapping[str, Any], env: int) -> dict[str, Any]:
    """Return the infos that an environment has by its masks, by dotted path, without final ones."""
    return {
        ".".join(path): value[env]
        for path, value, mask in entries(infos)
        if path[0] not in ("final_obs", "final_info")
        and is_array(value)
        and value.shape[:1] == np.shape(mask) != ()
        and mask[env]
    }


def changed_infos(left: Mapping[str, Any], right: Mapping[str, Any], env: int) -> set[str]:
    """Return the paths of the infos that an environment has in both, with other values."""
    now, then = infos_of(left, env), infos_of(right, env)
    return {path for path in now.keys() & then if not same(now[path], then[path])}


def fits(space: gym.Space[Any], value: Any, *, is_batch: bool) -> bool:
    """Return whether a value has the structure, shapes and, for a batch, dtypes of its space."""
    return all(_leaf_fits(*leaf, is_batch) for leaf in _leaves(space, value))


def _leaf_fits(space: gym.Space[Any], value: Any, is_batch: bool) -> bool:
    if space.shape is None or space.dtype is None:
        return not isinstance(space, spaces.Dict | spaces.Tuple)
    has_dtype = not is_batch or (is_array(value) and value.dtype == space.dtype)
    return has_dtype and np.shape(value) == space.shape


def describe(value: Any) -> str:
    """Return a value as a short text for a report, of at most about 100 characters."""
    if isinstance(value, np.ndarray):
        text = np.array2string(value, threshold=8, edgeitems=2, precision=5)
    else:
        text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
