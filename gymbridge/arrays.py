"""Arrays at the edge between a simulator and its user: the one place that converts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["jax_to_numpy", "own_numpy"]

Converter = Callable[[Any], Any]


def own_numpy(tree: Any) -> Any:
    """Return a tick of a host simulator as it is: its arrays already belong to the user."""
    return tree


def jax_to_numpy(tree: Any) -> Any:
    """Return a tick with every leaf as a numpy array of its own, writable.

    A view of a `jax.Array` is read-only and shares the buffer with the simulator, so it is copied.
    """
    if isinstance(tree, dict):
        return {key: jax_to_numpy(value) for key, value in tree.items()}
    if isinstance(tree, tuple):
        return type(tree)(*map(jax_to_numpy, tree))
    return np.array(tree)
