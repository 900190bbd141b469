"""Any JAX environment, as two pure functions. Importing this package imports no JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gymbridge.core.lazy import import_at_first_use
from gymbridge.jax_env.env import JaxEnv as JaxEnv

if TYPE_CHECKING:
    from gymbridge.jax_env.vector_env import JaxVectorEnv as JaxVectorEnv

__all__ = ["JaxEnv", "JaxVectorEnv"]

__getattr__ = import_at_first_use(__name__, {"JaxVectorEnv": "gymbridge.jax_env.vector_env"})
