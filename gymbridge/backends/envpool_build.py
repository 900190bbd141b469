"""EnvPool's pools as they are built: their seeds, their threads, and whose errors are whose."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import envpool
import numpy as np

from gymbridge.backends.envpool_threads import find_threads, list_threads, place_threads
from gymbridge.episode import Seeds
from gymbridge.errors import ArgumentError, GymbridgeError, SimulationError

__all__ = ["build_pool", "check_seeds", "name_task", "read_config"]


def build_pool(
    task_id: str, config: dict[str, Any], seeds: list[int], *, together: bool
) -> tuple[Any, Callable[[list[Any]], None]]:
    """Return a new pool and its send, of [ids, ids, *actions].

    Args:
        task_id: EnvPool's name of the task.
        config: Keywords for `envpool.make`.
        seeds: Of each environment.
        together: Where all threads of a pool with one worker run; see `place_threads`.

    Raises:
        SimulationError: EnvPool cannot build the task here.
    """
    first = seeds[0]
    follows = seeds == list(range(first, first + len(seeds)))
    before = list_threads()
    with name_task("build", task_id):
        pool: Any = envpool.make_gymnasium(task_id, seed=first if follows else seeds, **config)
    placed = pool.spec.config
    is_free = placed.num_threads == 1 and placed.thread_affinity_offset < 0
    threads = find_threads(before) if is_free else None
    send = pool._send
    return pool, send if threads is None else place_threads(send, threads, together=together)


def check_seeds(seeds: Seeds, is_full: bool) -> None:
    """Raise unless a pool can be built with the seeds.

    Args:
        seeds: Some or all given.
        is_full: Whether every environment is to be reset.

    Raises:
        ArgumentError: Seeds for a part of the pool.
    """
    if not is_full:
        raise ArgumentError(
            "`seed` cannot be given with `options['reset_mask']`: EnvPool fixes seeds when the "
            "pool is built; call `reset(seed=...)` without a mask."
        )
    if not seeds.given.all():
        raise ArgumentError(
            "`seed` must have an int for every environment of a pool that exists, got None "
            f"for {np.flatnonzero(~seeds.given).tolist()}: EnvPool fixes seeds when the pool "
            "is built."
        )


def read_config(task_id: str) -> dict[str, Any]:
    """Return the default configuration of a task.

    Raises:
        SimulationError: EnvPool cannot describe the task on this machine.
    """
    with name_task("describe", task_id):
        return envpool.make_spec(task_id).config._asdict()


@contextmanager
def name_task(verb: str, task_id: str) -> Iterator[None]:
    """Name the task in what EnvPool raises, and keep its warnings on Box precision to itself."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except GymbridgeError:
        raise
    except Exception as error:
        raise SimulationError(
            f"EnvPool cannot {verb} {task_id!r}: {type(error).__name__}: {error}"
        ) from error
