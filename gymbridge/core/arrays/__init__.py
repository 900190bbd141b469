"""Adapters of arrays between a runner and its user: the one place that converts them.

A runner works with arrays of numpy, torch or jax, and so does its user. `make_adapter` chooses the
conversions when a batch is built.
"""

from __future__ import annotations

from typing import Any, cast

from gymbridge.core.actions import make_numpy_reader
from gymbridge.core.arrays.adapter import (
    ArrayAdapter,
    fetch_together,
    gather,
    identity,
    jax_to_numpy,
)
from gymbridge.core.devices import Device, EveryDevice, Place, read_device
from gymbridge.core.extras import needs
from gymbridge.errors import ArgumentError

__all__ = ["ARRAYS", "make_adapter", "make_numpy_adapter"]

ARRAYS = ("numpy", "torch", "jax")
"""Kinds of arrays that a user can ask for."""

_ON_ONE = ("numpy", "torch")
"""Kinds of a simulator's own arrays that are on one device."""


def make_adapter(native: str, arrays: Any, device: Any, num_envs: int) -> ArrayAdapter:
    """Return the adapter between a runner's arrays, of the kind `native`, and the user's `arrays`.

    `device` is where the user's arrays are, as `gymbridge.core.devices.read_device` returns it, or
    None for the simulator's own device. Several devices need a runner on JAX; torch arrays need
    them on the CPU, which is one device to torch. All CPU devices are one for EnvPool, whose
    threads are on every core.

    Raises:
        ArgumentError: `arrays` is an unknown kind, the device does not exist, or several devices
            are not possible.
        NotInstalledError: The library of that kind is not installed.
    """
    if arrays not in ARRAYS:
        raise ArgumentError(f"`arrays` must be one of {ARRAYS}, got {arrays!r}.")
    if isinstance(device, EveryDevice):
        device = _settle(native, device, num_envs)
    if isinstance(device, tuple) and (
        native in _ON_ONE or (arrays == "torch" and device[0].kind != "cpu")
    ):
        raise ArgumentError(
            "`device` must be one device for EnvPool, and for torch arrays and gradients on GPUs, "
            f"got [{', '.join(map(str, device))}]; with torch run one process per device, as "
            "examples/ddp.py does."
        )
    if native == "torch":
        of_host = None if arrays == "torch" else make_adapter("numpy", arrays, None, num_envs)
        from gymbridge.core.arrays.tensors import make_tensor_adapter

        return make_tensor_adapter(cast("Device | None", device), of_host)
    if arrays == "numpy":
        return make_numpy_adapter(native, device)
    with needs(arrays, f"`arrays={arrays!r}`"):
        if arrays == "torch":
            from gymbridge.core.arrays.torch import make_torch_adapter as make
        else:
            from gymbridge.core.arrays.jax import make_jax_adapter as make
    return make(native, device)


def _settle(native: str, devices: EveryDevice, num_envs: int) -> Place:
    """Return which devices "all" stands for."""
    if native in _ON_ONE:
        if devices.kind == "cpu":
            return Device("cpu", 0)
        raise ArgumentError(f"`device` must be one device for EnvPool, got '{devices}'.")
    from gymbridge.core.arrays.jax_devices import start_jax_on

    return cast("Place", read_device(start_jax_on(devices, num_envs)))


def make_numpy_adapter(native: str, device: Any) -> ArrayAdapter:
    """Return the adapter to a user of numpy arrays."""
    if native == "numpy" and device is not None and device.kind != "cpu":
        raise ArgumentError(
            f"`device` must be 'cpu' or None for numpy arrays of an engine that runs on the CPU, "
            f"got '{device}'; `arrays='torch'` puts tensors on that device."
        )
    to_user, pack = identity, identity
    if native == "jax":
        from gymbridge.core.arrays.jax import pack_tree as pack
    if native == "jax" and isinstance(device, tuple):
        to_user = gather if device[0].kind == "cpu" else fetch_together
    elif native == "jax":
        # On the CPU there is nothing to wait for, and asking costs as much as the copy.
        to_user = jax_to_numpy if device and device.kind == "cpu" else fetch_together
    return ArrayAdapter("numpy", to_user, make_numpy_reader, pack=pack)
