"""Any JAX environment, as two pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gymbridge.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from gymbridge.jax_env.brax_env import to_brax as to_brax

__all__ = ["to_brax"]

__getattr__ = import_at_first_use(__name__, {"to_brax": "gymbridge.jax_env.brax_env"})
