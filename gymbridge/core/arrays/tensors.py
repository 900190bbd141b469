"""The adapter of a simulator of torch tensors to a user of any kind of arrays."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from gymnasium import Space

from gymbridge.core.actions import ActionReader
from gymbridge.core.arrays.adapter import ArrayAdapter, identity, map_arrays
from gymbridge.core.arrays.torch import TensorReader, choose_upload, find_torch_device, read_mask
from gymbridge.core.devices import Device

__all__ = ["make_tensor_adapter"]


def make_tensor_adapter(device: Device | None, of_host: ArrayAdapter | None) -> ArrayAdapter:
    """Return the adapter of a simulator of tensors on a device, or on the CPU for None.

    `of_host` is the adapter between a simulator of numpy arrays and a user of other arrays. For
    None, the user gets the simulator's own tensors.
    """
    place = find_torch_device(device or Device("cpu", 0))
    send = choose_upload(place)
    if of_host is None:
        # A policy's graph ends here: a simulator that writes into its buffers would extend it.
        reader = partial(TensorReader, place=place, hand_over=torch.Tensor.detach, upload=send)
        adapter = ArrayAdapter("torch", identity, reader, read_mask=read_mask, device=place)
    else:
        to_user, make_leaf = of_host.to_user, of_host.make_action_reader
        fetch = partial(map_arrays, partial(torch.Tensor.numpy, force=True))

        def make_reader(space: Space[Any], lead: tuple[int, ...]) -> ActionReader:
            read = make_leaf(space, lead)
            return lambda actions: send(read(actions))

        adapter = of_host._replace(
            to_user=lambda tree: to_user(fetch(tree)), make_action_reader=make_reader
        )
    return adapter._replace(
        library=torch, copy=torch.clone, count_rows=torch.Tensor.int, to_runner=send
    )
