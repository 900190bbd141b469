"""Batches and processes: what a fork leaves behind of the threads that engines run on.

A forked child has the memory of its parent and none of its threads, so JAX and EnvPool wait there
for ever. Children are to be spawned, or come from a fork server, and to build their own batches.
"""

from __future__ import annotations

import os
import weakref
from typing import Any, Protocol

from gymbridge.errors import SimulationError

__all__ = ["check_not_forked", "note_batch"]


class _Batch(Protocol):
    _is_forked: bool
    _carry: Any


_batches: weakref.WeakSet[Any] = weakref.WeakSet()
_engines: set[str] = set()
_dead_engines: set[str] = set()


def note_batch(batch: _Batch, engine: str | None = None) -> None:
    """Remember a batch, so that it refuses to run in a forked child.

    Args:
        batch: It gets ``_is_forked=True`` and ``_carry=None`` in a forked child.
        engine: Name of a library that cannot start again in such a child, or None.
    """
    _batches.add(batch)
    if engine is not None:
        _engines.add(engine)


def check_not_forked(engine: str) -> None:
    """Raise if a library had started in the parent before this process was forked.

    Raises:
        SimulationError: It had, so it would hang here.
    """
    if engine in _dead_engines:
        raise SimulationError(
            f"{engine} had started before this process was forked, and its threads did not come "
            "along; start workers with multiprocessing's 'spawn' or 'forkserver' instead."
        )


def _mark_child() -> None:
    _dead_engines.update(_engines)
    for batch in _batches:
        batch._is_forked, batch._carry = True, None


os.register_at_fork(after_in_child=_mark_child)
