"""Devices as JAX has them, and where a batch is spread over all of a kind."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Any, cast

import jax
import jax.numpy as jnp

from gymbridge.core.cores import count_affinity, count_cores
from gymbridge.core.devices import Device, EveryDevice, Place, read_device
from gymbridge.core.processes import check_not_forked, check_not_forking
from gymbridge.errors import ArgumentError
from gymbridge.private.jax import count_threads, jax_has_started, pool_of, read_threads

__all__ = ["check_threads", "find_jax_device", "start_jax_on"]

_LOG = logging.getLogger("gymbridge")

_starting = threading.RLock()
"""Held while JAX may start, since settings of the process are changed for it."""

_THREADS: list[int] = []
"""Threads of XLA's pool, if JAX was started here."""


def start_jax_on(device: Any, num_envs: int, *, calls: int = 2) -> Any:
    """Return where a batch is, a `jax.Device` or `jax.sharding.NamedSharding`.

    "cpu:all" asks JAX for a CPU device per core if it has not started, and stands for the largest
    number of devices that divides `num_envs`. `calls` are the LAPACK calls on many matrices that a
    step may have at the same time: JAX is started with the threads that `count_threads` says, and
    with no more, which would make steps slower.

    Raises:
        ArgumentError: JAX has no such device, or it has started with fewer CPU devices than cores.
        SimulationError: This process was forked after JAX had started.
    """
    place = read_device(device)
    check_not_forked()  # A thread of the parent may have had the lock.
    with _starting:
        if isinstance(place, EveryDevice):
            place = read_device(_choose(place, num_envs, calls))
        return _start_jax(place, calls)


def _choose(devices: EveryDevice, num_envs: int, calls: int) -> list[Any]:
    """Return the largest number of devices that divides the batch."""
    every = _find_every(devices, calls)
    count = next(size for size in range(len(every), 0, -1) if num_envs % size == 0)
    if count < len(every) and num_envs > 1:
        _say_idle(str(devices), num_envs, count, len(every))
    return every[:count]


def _find_every(devices: EveryDevice, calls: int) -> list[Any]:
    # A number of CPU devices that the user has set, here or by XLA's flag, is used as it is.
    config, flags = cast("Any", jax.config), os.environ.get("XLA_FLAGS", "")
    is_chosen = config.jax_num_cpu_devices != -1 or "host_platform_device_count" in flags
    wanted = count_cores() if devices.kind == "cpu" and not is_chosen else 1
    if wanted > 1 and not jax_has_started():
        config.update("jax_num_cpu_devices", wanted)
    _start_jax(Device(devices.kind, 0), calls)
    found = jax.local_devices(backend=devices.kind)
    if len(found) < wanted:
        threads = count_threads(wanted, wanted, calls)
        raise ArgumentError(
            f"`device='cpu:all'` needs {wanted} CPU devices of JAX, one for each core, and JAX has "
            f"started with {len(found)}. Before anything uses JAX, such as an environment that is "
            f"built, call jax.config.update('jax_num_cpu_devices', {wanted}), and set the "
            f"environment variable NPROC to {threads}, so that no device waits for a thread."
        )
    return found


def _start_jax(place: Any, calls: int) -> Any:
    """Return the device as JAX knows it, which starts with enough threads if it has not started."""
    chosen = re.search(r"host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    devices = max(1, cast("Any", jax.config).jax_num_cpu_devices, int(chosen[1]) if chosen else 1)
    cores = count_affinity()
    threads = count_threads(cores, devices, calls)
    if threads == max(cores, devices) or jax_has_started():
        return find_jax_device(place)
    with pool_of(threads):
        _THREADS.append(read_threads() or cores)
        return find_jax_device(place)


def check_threads(place: Any, num_envs: int, calls: int, factorizes: Callable[[], bool]) -> None:
    """Warn if the steps of a batch can wait for ever, since JAX has started with few threads.

    `place` is from `start_jax_on`, and `calls` are those of a device. `factorizes` says whether the
    environment has any; it is asked only where threads are few.
    """
    devices: Any = getattr(place, "device_set", {place})
    cpus = sum(one.platform == "cpu" for one in devices)
    if not num_envs > cpus > 0:
        return
    known = _THREADS or [read_threads() or count_affinity()]
    threads = max(*known, len(jax.local_devices(backend="cpu")))
    if threads < (needed := count_threads(threads, cpus, calls)) and factorizes():
        _say_threads(threads, needed)


@cache
def _say_threads(threads: int, needed: int) -> None:
    _LOG.warning(
        f"JAX has started with {threads} threads for its operations on CPUs, and this environment "
        "factorizes matrices. A step that factorizes many can then wait for ever. This was seen "
        f"with jaxlib 0.10.2 and not with 0.12.0.1; you have {version('jaxlib')}. Set the "
        f"environment variable NPROC to {needed} before JAX starts, or build this batch first. "
        "This is logged once for each number."
    )


@cache
def _say_idle(name: str, num_envs: int, count: int, available: int) -> None:
    below = num_envs - num_envs % available
    sizes = " or ".join(str(size) for size in (below, below + available) if size)
    _LOG.warning(
        f"`device={name!r}` runs num_envs={num_envs} on {count} of {available} devices, since each "
        f"gets as many environments; {sizes} would use all. This is logged once for each size."
    )


def find_jax_device(device: Place | None) -> Any:
    """Return the device as JAX knows it; JAX's default one for None.

    Several devices become a `jax.sharding.NamedSharding` that spreads leading axes over them.
    """
    check_not_forked()
    check_not_forking()
    if device is None:
        return next(iter(jnp.zeros(()).devices()))
    if isinstance(device, tuple):
        mesh = jax.sharding.Mesh([find_jax_device(one) for one in device], ("envs",))
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("envs"))
    try:
        return {found.id: found for found in jax.devices(device.kind)}[device.index]
    except (RuntimeError, KeyError) as error:
        hint = " Install it with: pip install 'jax[cuda13]'." if device.kind == "cuda" else ""
        raise ArgumentError(
            f"`device` must be one that JAX has, got '{device}'; it has {jax.devices()}.{hint}"
        ) from error
