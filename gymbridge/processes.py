"""Batches and processes: what a fork leaves behind of the threads that engines run on.

A forked child has the memory of its parent and none of its threads, so JAX and EnvPool wait there
for ever. Children are to be spawned, or come from a fork server, and to build their own batches.
"""

from __future__ import annotations

import os
import sys
import weakref
from typing import Any, Protocol

from gymbridge.errors import SimulationError

__all__ = ["check_not_forked", "note_batch"]


class _Batch(Protocol):
    _is_forked: bool
    _carry: Any


_batches: weakref.WeakSet[Any] = weakref.WeakSet()
_inherited: list[Any] = []
"""Batches of the parent in a forked child: to destroy a pool there, whose threads did not come
along, can end the process."""

_jax_is_dead = False


def note_batch(batch: _Batch) -> None:
    """Remember a batch, so that it refuses to run in a forked child.

    Args:
        batch: It gets ``_is_forked=True`` and ``_carry=None`` in a forked child.
    """
    _batches.add(batch)


def check_not_forked() -> None:
    """Raise if JAX had started in the parent before this process was forked, whoever used it.

    Raises:
        SimulationError: It had, so it would hang here.
    """
    if _jax_is_dead:
        raise SimulationError(
            "JAX had started before this process was forked, and its threads did not come "
            "along; start workers with multiprocessing's 'spawn' or 'forkserver' instead."
        )


def _jax_has_started() -> bool:
    probe = getattr(sys.modules.get("jax._src.xla_bridge"), "backends_are_initialized", None)
    return probe is not None and probe()


def _mark_child() -> None:
    global _jax_is_dead
    _jax_is_dead = _jax_is_dead or _jax_has_started()
    for batch in _batches:
        batch._is_forked, batch._carry = True, None
        _inherited.append(batch)


os.register_at_fork(after_in_child=_mark_child)
