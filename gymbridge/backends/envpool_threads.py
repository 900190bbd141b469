"""Where the two threads of a pool with one worker run.

A synchronous step of such a pool is a hand-over: the caller sleeps while the worker works, and the
other way round. Schedulers put the two on two cores, so that each hand-over wakes a core that has
gone to sleep, which can take longer than the step of a cheap task. On one core it is a switch of
threads. Nothing is lost, since the two never work at the same time.

The pool's other thread makes a buffer for each one that `recv` has taken, in the middle of the
caller's work unless it has to give way. Where no buffer is ready, `recv` makes one itself.
(envpool/core/async_envpool.h, envpool/core/state_buffer_queue.h)
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

__all__ = ["PoolThreads", "find_threads", "place_threads", "thread_ids"]

Send = Callable[[list[Any]], None]

_LAST = 19
"""The niceness of a thread that gives way to all others."""


class PoolThreads(NamedTuple):
    """Thread ids of a pool with one worker, in the order in which it starts them."""

    maker: int  # of buffers
    worker: int  # steps the environments


def thread_ids() -> set[int]:
    """Return the ids of this process's threads, an empty set where the system does not tell."""
    with suppress(OSError):
        return {int(name) for name in os.listdir("/proc/self/task")}
    return set()


def find_threads(before: set[int]) -> PoolThreads | None:
    """Return the threads of a pool with one worker, or None if it is not clear which they are.

    Args:
        before: What `thread_ids` returned before the pool was built.
    """
    started = sorted(thread_ids() - before)
    return PoolThreads(*started) if len(started) == 2 and before else None


def place_threads(send: Send, threads: PoolThreads) -> Send:
    """Make the maker give way; return `send` with the worker moved to the caller's core before it.

    Where the system cannot or may not do that, threads stay as they are.

    Args:
        send: The pool's own.
        threads: The pool's.
    """
    get_core = getattr(ctypes.PyDLL(None), "sched_getcpu", None)
    move: Any = getattr(os, "sched_setaffinity", None)
    if get_core is None or move is None:
        return send
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threads.maker, _LAST)
    core, worker = -1, threads.worker

    def send_near(arrays: list[Any]) -> None:
        nonlocal core
        here = get_core()
        if here != core:
            core = here
            with suppress(OSError):
                move(worker, {here})
        send(arrays)

    return send_near
