"""Trees of arrays, as `reset` and `step` return them: compared, spoilt, taken apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.support.batches import leaves


def assert_same(actual: Any, expected: Any, path: str = "", digits: float = 0) -> None:
    """Raise unless both trees have the same keys, types, dtypes, shapes and values.

    Args:
        actual: A tree.
        expected: What it should be.
        path: Where it is in a larger tree, for messages.
        digits: Relative and absolute tolerance of floats in arrays.
    """
    if isinstance(expected, dict):
        assert isinstance(actual, dict), f"{path}: {type(actual)} is no dict"
        assert actual.keys() == expected.keys(), f"{path}: {sorted(actual)} != {sorted(expected)}"
        for key, value in expected.items():
            assert_same(actual[key], value, f"{path}[{key!r}]", digits)
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected), f"{path}: {len(actual)} != {len(expected)} entries"
        for index, (left, right) in enumerate(zip(actual, expected, strict=True)):
            assert_same(left, right, f"{path}[{index}]", digits)
    elif isinstance(expected, np.ndarray):
        assert isinstance(actual, np.ndarray), f"{path}: {type(actual)} is no array"
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), path
        if expected.dtype == object:
            assert_same(list(actual), list(expected), path, digits)
        elif digits and expected.dtype.kind == "f":
            np.testing.assert_allclose(actual, expected, digits, digits, err_msg=path)
        elif not np.array_equal(actual, expected):  # numpy's other function takes 50 times as long
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


def unique(tree: Any) -> list[Any]:
    """Return the different arrays of a tree."""
    return [*{id(leaf): leaf for leaf in leaves(tree)}.values()]


def spoil(kind: str, *, waits: bool = True) -> Callable[[Any], None]:
    """Return what a user may do to everything: write into it, or donate it.

    Args:
        kind: Kind of the arrays.
        waits: Whether a donation is over when the function returns.
    """
    if kind == "numpy":
        return scribble
    if kind == "torch":
        import torch

        def write(tree: Any) -> None:
            for leaf in leaves(tree):
                leaf.copy_(~leaf if leaf.dtype == torch.bool else torch.full_like(leaf, 93))

        return write
    import jax

    jitted = jax.jit(lambda leaf: ~leaf if leaf.dtype == bool else leaf * 3 + 1, donate_argnums=0)

    def donate(tree: Any) -> None:
        arrays = unique(tree)
        for leaf in arrays:
            spoilt = jitted(leaf)
            if waits:
                jax.block_until_ready(spoilt)
        assert any(leaf.is_deleted() for leaf in arrays), "JAX took none of them"

    return donate


def walk_infos(infos: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, value and mask of every info, those inside dicts too."""
    for key, value in infos.items():
        if key.startswith("_"):
            assert key[1:] in infos, f"{key} masks nothing"
            continue
        yield key, value, infos.get(f"_{key}")
        if isinstance(value, dict):
            yield from walk_infos(value)
