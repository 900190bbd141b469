"""EnvPool: a thread pool of C++ environments. Importing this package imports no engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gymbridge.envpool.async_pool import AsyncEnvPool as AsyncEnvPool
    from gymbridge.envpool.vector_env import EnvPoolVectorEnv as EnvPoolVectorEnv

__all__ = ["AsyncEnvPool", "EnvPoolVectorEnv"]


def __getattr__(name: str) -> Any:
    if name == "EnvPoolVectorEnv":
        from gymbridge.envpool.vector_env import EnvPoolVectorEnv

        return EnvPoolVectorEnv
    if name == "AsyncEnvPool":
        from gymbridge.envpool import vector_env  # says what to install, where EnvPool is missing
        from gymbridge.envpool.async_pool import AsyncEnvPool

        del vector_env
        return AsyncEnvPool
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
