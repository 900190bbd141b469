"""Brax: physics in JAX. Importing this package imports no engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gymbridge.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from gymbridge.brax.vector_env import BraxVectorEnv as BraxVectorEnv

__all__ = ["BraxVectorEnv"]

__getattr__ = import_at_first_use(__name__, {"BraxVectorEnv": "gymbridge.brax.vector_env"})
