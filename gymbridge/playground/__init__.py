"""MuJoCo Playground: robots on MJX. Importing this package imports no engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gymbridge.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from gymbridge.playground.vector_env import PlaygroundVectorEnv as PlaygroundVectorEnv

__all__ = ["PlaygroundVectorEnv"]

__getattr__ = import_at_first_use(
    __name__, {"PlaygroundVectorEnv": "gymbridge.playground.vector_env"}
)
