"""Devices as JAX has them, and where a batch is spread over all of a kind."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import nullcontext
from functools import cache
from typing import Any, cast

import jax
import jax.numpy as jnp

from gymbridge.core.cores import count_cores
from gymbridge.core.devices import Device, EveryDevice, Place, read_device
from gymbridge.core.jax_private import jax_has_started, spare_thread
from gymbridge.core.processes import check_not_forked
from gymbridge.errors import ArgumentError

__all__ = ["find_jax_device", "find_place"]

_LOG = logging.getLogger("gymbridge")

_SPARE = threading.Event()
"""Set when JAX was started here with a spare thread; see `spare_thread`."""


def find_place(device: Any, num_envs: int, *, factorizes: bool = True) -> Any:
    """Return where a batch is, a `jax.Device` or `jax.sharding.NamedSharding`.

    Args:
        device: As a user gives it. "cpu:all" asks JAX for a CPU device per core if it has not
            started, and stands for the largest number of devices that divides `num_envs`.
        num_envs: Size of the batch.
        factorizes: Whether its steps may factorize matrices. Then JAX is started with a spare
            thread for several CPU devices, or a warning says that it was not. That thread makes
            other steps slower.

    Raises:
        ArgumentError: JAX has no such device, or it has started with fewer CPU devices than cores.
        SimulationError: This process was forked after JAX had started.
    """
    place = read_device(device)
    if isinstance(place, EveryDevice):
        place = _choose(place, num_envs, factorizes)
    elif isinstance(place, tuple):
        _start_jax(place[0], factorizes)
    cpus = len(place) if isinstance(place, tuple) and place[0].kind == "cpu" else 1
    is_sure = not factorizes or _SPARE.is_set() or "NPROC" in os.environ
    if not is_sure and cpus > 1 and cpus >= count_cores():
        _say_spare(cpus)
    return find_jax_device(place)


def _choose(devices: EveryDevice, num_envs: int, factorizes: bool) -> Place:
    """Return the largest number of devices that divides the batch, or one device."""
    every = _find_every(devices, factorizes)
    count = next(size for size in range(len(every), 0, -1) if num_envs % size == 0)
    if count < len(every) and num_envs > 1:
        _say_idle(str(devices), num_envs, count, len(every))
    return every[:count] if count > 1 else every[0]


def _find_every(devices: EveryDevice, factorizes: bool) -> tuple[Device, ...]:
    # Whoever has set a number of CPU devices, here or by XLA's flag, gets all of those.
    config, flags = cast("Any", jax.config), os.environ.get("XLA_FLAGS", "")
    is_chosen = config.jax_num_cpu_devices != -1 or "host_platform_device_count" in flags
    wanted = count_cores() if devices.kind == "cpu" and not is_chosen else 1
    if wanted > 1 and not jax_has_started():
        config.update("jax_num_cpu_devices", wanted)
    _start_jax(Device(devices.kind, 0), factorizes)
    found = jax.local_devices(backend=devices.kind)
    if len(found) < wanted:
        raise ArgumentError(
            f"`device='cpu:all'` needs {wanted} CPU devices of JAX, one for each core, and JAX has "
            f"started with {len(found)}. Before anything uses JAX, such as an environment that is "
            f"built, call jax.config.update('jax_num_cpu_devices', {wanted}), and set the "
            f"environment variable NPROC to {wanted + 1}, so that no device waits for a thread."
        )
    return tuple(cast("Device", read_device(one)) for one in found)


def _start_jax(first: Device, factorizes: bool) -> None:
    """Start JAX if it has not started, with a spare thread where CPU devices need one.

    Raises:
        ArgumentError: JAX has no such device.
    """
    is_first = factorizes and first.kind == "cpu" and not jax_has_started()
    most = max(count_cores(), cast("Any", jax.config).jax_num_cpu_devices)
    with spare_thread(most) if is_first else nullcontext():
        find_jax_device(first)
    if is_first and len(jax.local_devices(backend="cpu")) <= most:
        _SPARE.set()


@cache
def _say_spare(devices: int) -> None:
    _LOG.warning(
        "JAX has started without a spare thread. On %d CPU devices, a step that factorizes "
        "matrices, as MJX's does, can wait for ever in jaxlib 0.10.2. Set the environment variable "
        "NPROC to %d before JAX starts, or build this batch first. This is logged once.",
        devices,
        devices + 1,
    )


@cache
def _say_idle(name: str, num_envs: int, count: int, available: int) -> None:
    below = num_envs - num_envs % available
    sizes = " or ".join(str(size) for size in (below, below + available) if size)
    _LOG.warning(
        "`device=%r` runs num_envs=%d on %d of %d devices, since each gets as many environments; "
        "%s would use all. This is logged once for each size.",
        name,
        num_envs,
        count,
        available,
        sizes,
    )


def find_jax_device(device: Place | None) -> Any:
    """Return the device as JAX knows it; JAX's default one for None.

    Several devices become a `jax.sharding.NamedSharding` that spreads leading axes over them.

    Raises:
        ArgumentError: JAX has no such device.
        SimulationError: This process was forked after JAX had started.
    """
    check_not_forked()
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
