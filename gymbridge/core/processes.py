"""Where a batch may be used: in the process that built it, by one thread at a time.

A forked child has the memory of its parent, but none of its threads, so JAX and EnvPool would wait
there for ever. Start workers with 'spawn' or 'forkserver', and build their batches in them.
"""

from __future__ import annotations

import inspect
import multiprocessing
import os
import threading
import weakref
from contextlib import suppress
from typing import Any, Protocol

from gymnasium.vector import AsyncVectorEnv

from gymbridge.errors import ArgumentError, BusyError, ClosedError, SimulationError
from gymbridge.private.jax import jax_has_started

__all__ = [
    "Forkable",
    "OneThread",
    "check_not_forked",
    "check_not_forking",
    "check_open",
    "note_batch",
]


_RLock: Any = type(threading.RLock())


class OneThread(_RLock):
    """A lock for one call at a time; a second call raises at once and does not wait.

    A second call can come from another thread, or from a signal handler that interrupts a call in
    its own thread. Python's lock is released by code in C, which Ctrl-C cannot interrupt.
    """

    def __enter__(self) -> None:
        if self._is_owned():
            raise BusyError(
                "A call of this batch is running in this thread, and a signal handler made another "
                "one. Set a flag in the handler, and act on it between two calls."
            )
        try:
            is_free = self.acquire(blocking=False)
        except BaseException:  # Ctrl-C can arrive between the lock's taking and its use
            with suppress(RuntimeError):
                self.release()
            raise
        if not is_free:
            raise BusyError(
                "Another thread is in a call of this batch, and a batch serves one thread at a "
                "time. Build one batch per thread, or guard the calls with a lock."
            )


_batches: weakref.WeakSet[Forkable] = weakref.WeakSet()
_inherited: list[Forkable] = []
"""Batches of the parent in a forked child. Engine threads do not survive `fork()`, and to destroy a
pool without its threads can end the process."""

_jax_is_dead = False


class Forkable(Protocol):
    """What has threads, or arrays of an engine with threads.

    Attributes:
        closed: Whether it is closed.
        is_forked: Whether this process is a forked child, and the batch its parent's.
    """

    closed: bool
    is_forked: bool

    def after_fork(self) -> None:
        """Become a batch of the parent, in a forked child.

        It needs another `OneThread`, since the parent's may belong to a thread that does not exist
        in the child.
        """
        ...


def note_batch(batch: Forkable) -> None:
    """Remember a batch, so that it refuses to run in a forked child."""
    _batches.add(batch)


def check_open(batch: Forkable) -> None:
    """Raise if a batch is closed, or was built before this process was forked."""
    if batch.closed:
        raise ClosedError(f"{batch} is closed; build a new one.")
    if batch.is_forked:
        raise SimulationError(
            f"{batch} was built before this process was forked, and engine threads do not "
            "survive `fork()`. Build it inside a worker that multiprocessing's 'spawn' or "
            "'forkserver' started."
        )


def check_not_forked() -> None:
    """Raise if JAX had started in the parent before this process was forked, whoever used it."""
    if _jax_is_dead:
        raise SimulationError(
            "JAX had started before this process was forked, and engine threads do not survive "
            "`fork()`. Start workers with multiprocessing's 'spawn' or 'forkserver' instead."
        )


def check_not_forking() -> None:
    """Raise if Gymnasium's `AsyncVectorEnv` is building this environment, and would then fork.

    It builds one environment in its own process, for the spaces, before it starts the others, and
    all that it would say of those is that they reset the connection.
    """
    frame, build = inspect.currentframe(), vars(AsyncVectorEnv)["__init__"]
    while frame is not None and frame.f_code is not build.__code__:
        frame = frame.f_back
    if frame is None:
        return
    method = frame.f_locals["context"] or multiprocessing.get_start_method(allow_none=True)
    if (method or multiprocessing.get_all_start_methods()[0]) == "fork":  # the first is the default
        raise ArgumentError(
            "`context` of AsyncVectorEnv must not be 'fork' for environments in JAX, since its "
            "threads do not survive `fork()`. With `gymnasium.make_vec`, leave out "
            "`vectorization_mode='async'`, since ids of gymbridge step all environments at once, "
            "or pass `vector_kwargs={'context': 'spawn'}`."
        )


def _mark_child() -> None:
    global _jax_is_dead
    _jax_is_dead = _jax_is_dead or jax_has_started()
    for batch in _batches:
        batch.after_fork()
        _inherited.append(batch)


os.register_at_fork(after_in_child=_mark_child)
