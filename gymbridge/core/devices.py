"""Devices as a user names them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from gymbridge.errors import ArgumentError, ArgumentTypeError

__all__ = ["Device", "EveryDevice", "Place", "check_spread", "read_device"]


@dataclass(frozen=True)
class Device:
    """One device, with torch's name for its kind: "cuda" where JAX has "gpu"."""

    kind: str  # "cpu", "cuda", …
    index: int

    def __str__(self) -> str:
        return self.kind if (self.kind, self.index) == ("cpu", 0) else f"{self.kind}:{self.index}"


@dataclass(frozen=True)
class EveryDevice:
    """All devices of one kind, as many of them as divide a batch evenly."""

    kind: str  # as in `Device`

    def __str__(self) -> str:
        return f"{self.kind}:all"


Place = Device | tuple[Device, ...]
"""One device, or several over which a batch is spread."""


def read_device(device: Any) -> Place | EveryDevice | None:
    """Return the device that a string, `torch.device` or `jax.Device` names; None stays None.

    A list names several, and so does a `jax.sharding.NamedSharding`. "cpu:all" names all of a kind.

    Raises:
        ArgumentTypeError: `device` is none of them.
        ArgumentError: A string does not have the form "cpu", "cuda", "cuda:1" or "cuda:all". A list
            has no devices, one device twice, or devices of several platforms.
    """
    if hasattr(device, "mesh"):
        device = list(device.mesh.devices.flat)
    if isinstance(device, str) and (match := re.fullmatch(r"([a-z]+):all", device)):
        return EveryDevice(match[1])
    if not isinstance(device, list | tuple):
        return None if device is None else _read_one(device)
    found = tuple(_read_one(one) for one in cast("Sequence[Any]", device))
    if len(set(found)) != len(found) or len({one.kind for one in found}) != 1:
        raise ArgumentError(
            "`device` must be one device or a list of different ones of one platform, got "
            f"[{', '.join(map(str, found))}]."
        )
    first, *others = found
    return found if others else first


def _read_one(device: Any) -> Device:
    if isinstance(device, Device):
        return device
    if isinstance(device, str):
        match = re.fullmatch(r"([a-z]+)(?::(\d+))?", device)
        if match is None:
            raise ArgumentError(
                "`device` must be like 'cpu', 'cuda', 'cuda:1' or, by itself, 'cpu:all', got "
                f"{device!r}."
            )
        kind, index = match[1], match[2]
    elif hasattr(device, "platform") and hasattr(device, "id"):  # jax.Device
        kind, index = device.platform, device.id
    elif hasattr(device, "type") and hasattr(device, "index"):  # torch.device
        kind, index = device.type, device.index
    else:
        raise ArgumentTypeError(
            "`device` must be a string, a torch.device, a jax.Device, a list of such or None, got "
            f"{type(device).__name__}."
        )
    return Device("cuda" if kind == "gpu" else kind, int(index or 0))


def check_spread(num_envs: int, num_devices: int) -> None:
    """Raise unless the rows of a batch can be spread evenly over its devices."""
    rest = num_envs % num_devices
    if rest:
        near = [size for size in (num_envs - rest, num_envs - rest + num_devices) if size]
        raise ArgumentError(
            f"`num_envs` must be a multiple of the {num_devices} devices, got {num_envs}; use "
            f"{' or '.join(map(str, near))}."
        )
