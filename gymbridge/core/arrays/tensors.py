"""The adapter of a simulator of torch tensors to a user of any kind of arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from gymnasium import Space

from gymbridge.core.actions import ActionReader, LeafMaker
from gymbridge.core.arrays.adapter import ArrayAdapter, identity, map_arrays
from gymbridge.core.arrays.torch import TensorReader, choose_upload, find_torch_device, read_mask
from gymbridge.core.devices import Device

__all__ = ["make_tensor_adapter"]


def make_tensor_adapter(device: Device | None, of_host: ArrayAdapter | None) -> ArrayAdapter:
    """Return the adapter of a simulator whose arrays are tensors.

    Args:
        device: Where the simulator is; None for the CPU.
        of_host: The adapter between a simulator of numpy arrays and the user, for a user of other
            arrays; None for one of tensors, who gets the simulator's own.
    """
    place = find_torch_device(device or Device("cpu", 0))
    send = choose_upload(place)
    if of_host is None:
        # A policy's graph ends here: a simulator that writes into its buffers would extend it.
        reader = partial(TensorReader, place=place, hand_over=torch.Tensor.detach, upload=send)
        adapter = ArrayAdapter("torch", identity, reader, read_mask=read_mask, device=place)
    else:
        to_user, make_reader = (
            of_host.to_user,
            partial(_make_reader, of_host.make_action_reader, send),
        )
        adapter = of_host._replace(
            to_user=lambda tree: to_user(map_arrays(_to_numpy, tree)),
            make_action_reader=make_reader,
        )
    return adapter._replace(
        library=torch, copy=torch.clone, count_rows=torch.Tensor.int, to_runner=send
    )


def _to_numpy(tensor: torch.Tensor) -> Any:
    return tensor.numpy(force=True)


def _make_reader(
    make_leaf: LeafMaker, send: Callable[[Any], Any], space: Space[Any], lead: tuple[int, ...]
) -> ActionReader:
    read = make_leaf(space, lead)
    return lambda actions: send(read(actions))
