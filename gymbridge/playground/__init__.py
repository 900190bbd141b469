"""MuJoCo Playground: robots on MJX. Importing this package imports no engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gymbridge.playground.vector_env import PlaygroundVectorEnv as PlaygroundVectorEnv

__all__ = ["PlaygroundVectorEnv"]


def __getattr__(name: str) -> Any:
    if name == "PlaygroundVectorEnv":
        from gymbridge.playground.vector_env import PlaygroundVectorEnv

        return PlaygroundVectorEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
