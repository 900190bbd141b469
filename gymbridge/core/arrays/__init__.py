"""Adapters of arrays between a runner and its user: the one place that converts them.

A runner works with arrays of numpy, torch or jax, and so does its user. `make_adapter` chooses the
conversions when a batch is built.
"""

from __future__ import annotations

from typing import Any

from gymbridge.core.actions import make_numpy_reader
from gymbridge.core.arrays.adapter import (
    ArrayAdapter,
    fetch_together,
    gather,
    identity,
    jax_to_numpy,
)
from gymbridge.core.devices import Device, EveryDevice, read_device
from gymbridge.core.extras import needs
from gymbridge.errors import ArgumentError

__all__ = ["ARRAYS", "make_adapter", "make_numpy_adapter"]

ARRAYS = ("numpy", "torch", "jax")
"""Kinds of arrays that a user can ask for."""


def make_adapter(native: str, arrays: Any, device: Any) -> ArrayAdapter:
    """Return the adapter between a runner's arrays, of the kind `native`, and the user's `arrays`.

    `device` is where the user's arrays are, or None for the simulator's own device. Several devices
    need a runner on JAX, which has chosen them; torch arrays need them on the CPU, which is one
    device to torch. All CPU devices are one for EnvPool, whose threads are on every core.

    Raises:
        ArgumentError: `arrays` is an unknown kind, the device does not exist, or several devices
            are not possible.
        NotInstalledError: The library of that kind is not installed.
    """
    if arrays not in ARRAYS:
        raise ArgumentError(f"`arrays` must be one of {ARRAYS}, got {arrays!r}.")
    device = read_device(device)
    if isinstance(device, EveryDevice):
        if device.kind != "cpu":
            raise ArgumentError(f"`device` must be one device for EnvPool, got '{device}'.")
        device = Device("cpu", 0)
    if isinstance(device, tuple) and (
        native in ("numpy", "torch") or (arrays == "torch" and device[0].kind != "cpu")
    ):
        raise ArgumentError(
            "`device` must be one device for EnvPool, and for torch arrays and gradients on GPUs, "
            f"got [{', '.join(map(str, device))}]; with torch run one process per device, as "
            "examples/ddp.py does."
        )
    if native == "torch":
        of_host = None if arrays == "torch" else make_adapter("numpy", arrays, None)
        from gymbridge.core.arrays.torch import make_tensor_adapter

        return make_tensor_adapter(device, of_host)
    if arrays == "numpy":
        return make_numpy_adapter(native, device)
    with needs(arrays, f"`arrays={arrays!r}`"):
        if arrays == "torch":
            from gymbridge.core.arrays.torch import make_torch_adapter as make
        else:
            from gymbridge.core.arrays.jax import make_jax_adapter as make
    return make(native, device)


def make_numpy_adapter(native: str, device: Any) -> ArrayAdapter:
    """Return the adapter to a user of numpy arrays."""
    if native == "numpy":
        if device is not None and device.kind != "cpu":
            raise ArgumentError(
                "`device` must be 'cpu' or None for numpy arrays of an engine that runs on the "
                f"CPU, got '{device}'; `arrays='torch'` puts tensors on that device."
            )
        return ArrayAdapter("numpy", identity, make_numpy_reader)
    from gymbridge.core.arrays.jax import pack_tree

    to_user, first = (gather, device[0]) if isinstance(device, tuple) else (jax_to_numpy, device)
    if first is None or first.kind != "cpu":
        # On the CPU there is nothing to wait for, and asking costs as much as the copy.
        to_user = fetch_together
    return ArrayAdapter("numpy", to_user, make_numpy_reader, pack=pack_tree)
