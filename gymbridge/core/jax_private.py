"""What JAX offers only by private names, read in jax 0.10.2; importing this imports no jax."""

from __future__ import annotations

import sys

__all__ = ["jax_has_started"]


def jax_has_started() -> bool:
    """Return whether JAX has started its threads in this process.

    Where a version of JAX lacks the name, an imported JAX counts as started: a fork would hang.
    """
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is None:
        return False
    are_initialized = getattr(bridge, "backends_are_initialized", None)
    return are_initialized is None or are_initialized()
