"""The model of an engine's environment, and its leaves by dotted path."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

from gymbridge.private.jax import default_promotion

__all__ = ["ModelLeaves", "Physics", "flatten_named"]

Physics = dict[str, Any]
"""Leaves of a model by dotted path, such as ``{"gravity": (3,) float}``."""

_LOCK = threading.RLock()
"""Held in each trace, since in another thread's the environment may have another model."""


class ModelLeaves:
    """The model of an environment, and models like it with other leaves.

    Args:
        env: The environment.
        attribute: Its attribute that has the model.

    Attributes:
        model: The model itself; None if there is none.
        own: Its leaves by dotted path; a leaf may be None.
        structure: Structure of the tree, with None as a leaf.
        doubled: Paths that two leaves share, for example because a key has a dot.
    """

    def __init__(self, env: Any, attribute: str) -> None:
        self._env, self._attribute = env, attribute
        with _LOCK:
            self.model = getattr(env, attribute, None)
        self._named, self.structure = flatten_named(self.model)
        names = [name for name, _ in self._named]
        self.own = dict(self._named)
        self.doubled = {name for name in names if names.count(name) > 1}

    def replace(self, physics: Physics) -> Any:
        """Return the model with these leaves in place of its own."""
        leaves = [physics.get(name, leaf) for name, leaf in self._named]
        return jax.tree.unflatten(self.structure, leaves)

    @contextmanager
    def replaced(self, physics: Physics | None) -> Iterator[None]:
        """Let the environment be traced inside the block while its model has these leaves."""
        with _LOCK, default_promotion():
            if not physics:
                yield
                return
            own = getattr(self._env, self._attribute)
            try:
                setattr(self._env, self._attribute, self.replace(physics))
                yield
            finally:
                setattr(self._env, self._attribute, own)


def flatten_named(tree: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Return the leaves of a tree with their dotted paths, and its structure; None is a leaf."""
    named, structure = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda leaf: leaf is None)
    names = (jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in named)
    return list(zip(names, (leaf for _, leaf in named), strict=True)), structure
