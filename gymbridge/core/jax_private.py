"""What JAX offers only by private names, read in jax 0.10.2; importing this imports no jax."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["jax_has_started", "used_inputs"]


def jax_has_started() -> bool:
    """Return whether JAX has started its threads in this process.

    Where a version of JAX lacks the name, an imported JAX counts as started: a fork would hang.
    """
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is None:
        return False
    are_initialized = getattr(bridge, "backends_are_initialized", None)
    return are_initialized is None or are_initialized()


def used_inputs(function: Callable[..., Any], *args: Any) -> Any:
    """Return the arguments' trees with True for each leaf that some output depends on.

    Where a version of JAX lacks the name, every leaf counts as used.

    Args:
        function: Pure, of trees of arrays.
        *args: Their shapes and dtypes.
    """
    import jax
    from jax.interpreters import partial_eval

    closed = jax.make_jaxpr(function)(*args)
    eliminate: Any = getattr(partial_eval, "dce_jaxpr", None)
    used = [True] * len(closed.jaxpr.invars)
    if eliminate is not None:
        used = eliminate(closed.jaxpr, [True] * len(closed.jaxpr.outvars))[1]
    return jax.tree.unflatten(jax.tree.structure(args), used)
