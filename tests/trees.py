"""Trees of arrays, as `reset` and `step` return them: compared, spoilt, taken apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["assert_same", "scribble", "walk_infos"]


def assert_same(actual: Any, expected: Any, path: str = "") -> None:
    """Raise unless both trees have the same keys, types, dtypes, shapes and values."""
    if isinstance(expected, dict):
        assert isinstance(actual, dict), f"{path}: {type(actual)} is no dict"
        assert actual.keys() == expected.keys(), f"{path}: {sorted(actual)} != {sorted(expected)}"
        for key, value in expected.items():
            assert_same(actual[key], value, f"{path}[{key!r}]")
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected), f"{path}: {len(actual)} != {len(expected)} entries"
        for index, (left, right) in enumerate(zip(actual, expected, strict=True)):
            assert_same(left, right, f"{path}[{index}]")
    elif isinstance(expected, np.ndarray):
        assert isinstance(actual, np.ndarray), f"{path}: {type(actual)} is no array"
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), path
        if expected.dtype == object:
            assert_same(list(actual), list(expected), path)
        else:
            np.testing.assert_array_equal(actual, expected, err_msg=path)
    else:
        assert type(actual) is type(expected), f"{path}: {actual!r} is not like {expected!r}"
        is_same = actual == expected or (actual != actual and expected != expected)  # both NaN
        assert is_same, f"{path}: {actual!r} != {expected!r}"


def scribble(tree: Any) -> None:
    """Write garbage into every array and list of a tree; fail where an array is read-only."""
    if isinstance(tree, dict):
        for value in tree.values():
            scribble(value)
    elif isinstance(tree, tuple):
        for value in tree:
            scribble(value)
    elif isinstance(tree, list):
        tree[:] = [-7] * len(tree)
    elif isinstance(tree, np.ndarray):
        if tree.dtype == object:
            scribble(tuple(tree))
            tree[...] = "garbage"
        else:
            tree[...] = ~tree if tree.dtype == bool else 93


def walk_infos(infos: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, value and mask of every info, those inside dicts too."""
    for key, value in infos.items():
        if key.startswith("_"):
            assert key[1:] in infos, f"{key} masks nothing"
            continue
        yield key, value, infos.get(f"_{key}")
        if isinstance(value, dict):
            yield from walk_infos(value)
