"""The leaves of an engine's model by dotted path."""

from __future__ import annotations

from typing import Any

import jax

__all__ = ["ModelLeaves", "Physics", "flatten_named"]

Physics = dict[str, Any]
"""Leaves of a model by dotted path, such as ``{"gravity": (3,) float}``."""


class ModelLeaves:
    """A model, and models like it with other leaves.

    Attributes:
        model: The model itself.
        own: Its leaves by dotted path; a leaf may be None.
        structure: Structure of the tree, with None as a leaf.
        doubled: Paths that two leaves share, for example because a key has a dot.
    """

    def __init__(self, model: Any) -> None:
        named, self.structure = flatten_named(model)
        names = [name for name, _ in named]
        self.model, self.own, self._named = model, dict(named), named
        self.doubled = {name for name in names if names.count(name) > 1}

    def replace(self, physics: Physics) -> Any:
        """Return the model with these leaves in place of its own."""
        leaves = [physics.get(name, leaf) for name, leaf in self._named]
        return jax.tree.unflatten(self.structure, leaves)


def flatten_named(tree: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Return the leaves of a tree with their dotted paths, and its structure; None is a leaf."""
    named, structure = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda leaf: leaf is None)
    names = (jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in named)
    return list(zip(names, (leaf for _, leaf in named), strict=True)), structure
