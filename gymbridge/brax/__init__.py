"""Brax: physics in JAX. Importing this package imports no engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gymbridge.brax.vector_env import BraxVectorEnv as BraxVectorEnv

__all__ = ["BraxVectorEnv"]


def __getattr__(name: str) -> Any:
    if name == "BraxVectorEnv":
        from gymbridge.brax.vector_env import BraxVectorEnv

        return BraxVectorEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
