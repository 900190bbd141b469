"""EnvPool: a thread pool of C++ environments. Importing this package imports no engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gymbridge.envpool.vector_env import EnvPoolVectorEnv as EnvPoolVectorEnv

__all__ = ["EnvPoolVectorEnv"]


def __getattr__(name: str) -> Any:
    if name == "EnvPoolVectorEnv":
        from gymbridge.envpool.vector_env import EnvPoolVectorEnv

        return EnvPoolVectorEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
