"""EnvPool: a thread pool of C++ environments. Importing this package imports no engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gymbridge.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from gymbridge.envpool.async_pool import AsyncEnvPool as AsyncEnvPool
    from gymbridge.envpool.vector_env import EnvPoolVectorEnv as EnvPoolVectorEnv

__all__ = ["AsyncEnvPool", "EnvPoolVectorEnv"]

__getattr__ = import_at_first_use(
    __name__,
    {
        "AsyncEnvPool": "gymbridge.envpool.async_pool",
        "EnvPoolVectorEnv": "gymbridge.envpool.vector_env",
    },
)
