"""Where the threads of a pool with one worker run.

A synchronous step of such a pool is a hand-over: the caller sleeps while the worker works, and the
other way round. Schedulers put the two on two cores, so that each hand-over wakes a core that has
gone to sleep, which can take longer than the step of a cheap task. On one core it is a switch of
threads. Nothing is lost, since the two never work at the same time.

The pool's other threads make a buffer for each one that `recv` has taken, in the middle of the
caller's work unless they have to give way. Where no buffer is ready, `recv` makes one itself.
(envpool/core/async_envpool.h, envpool/core/state_buffer_queue.h)
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

__all__ = ["PoolThreads", "find_threads", "list_threads", "place_threads"]

Send = Callable[[list[Any]], None]

_GIVES_WAY = 5
"""Added to the niceness of makers. They wait for no core for long, since closing a pool waits for
them."""


class PoolThreads(NamedTuple):
    """Thread ids of a pool with one worker."""

    makers: list[int]  # of buffers
    worker: int  # steps the environments


def list_threads() -> list[int]:
    """Return the ids of this process's threads, oldest first; none where the system does not tell.

    A /proc of another pid namespace tells ids that mean other threads here.
    """
    with suppress(OSError):
        if os.readlink("/proc/self") == str(os.getpid()):
            return [int(name) for name in os.listdir("/proc/self/task")]
    return []


def find_threads(before: list[int]) -> PoolThreads | None:
    """Return the threads of a pool with one worker, or None if it is not clear which they are.

    EnvPool starts one maker of buffers for each 64 cores, at least one, and then the worker.

    Args:
        before: What `list_threads` returned before the pool was built.
    """
    num_makers = max(1, (os.cpu_count() or 1) // 64)
    for _ in range(3):  # the threads that set the pool up may still be on their way out
        started = [thread for thread in list_threads() if thread not in before]
        if before and len(started) == num_makers + 1:
            return PoolThreads(started[:-1], started[-1])
    return None


def place_threads(send: Send, threads: PoolThreads, *, together: bool) -> Send:
    """Make the makers give way; return `send` with the worker moved to the caller's core before it.

    Where the system cannot or may not do that, threads stay as they are.

    Args:
        send: The pool's own.
        threads: The pool's.
        together: Whether the makers move, too. Buffers are at hand then, and no other core is
            woken; but a caller that soon asks again has to wait for their making.
    """
    get_core = getattr(ctypes.PyDLL(None), "sched_getcpu", None)
    move: Any = getattr(os, "sched_setaffinity", None)
    if get_core is None or move is None:
        return send
    for maker in threads.makers:
        with suppress(OSError):
            os.sched_setscheduler(maker, os.SCHED_BATCH, os.sched_param(0))
            niceness = os.getpriority(os.PRIO_PROCESS, maker)
            os.setpriority(os.PRIO_PROCESS, maker, niceness + _GIVES_WAY)
    core = -1
    moved = [threads.worker, *threads.makers] if together else [threads.worker]

    def send_near(arrays: list[Any]) -> None:
        nonlocal core
        here = get_core()
        if here != core:
            core = here
            with suppress(OSError):
                for thread in moved:
                    move(thread, {here})
        send(arrays)

    return send_near
