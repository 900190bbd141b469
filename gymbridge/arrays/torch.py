"""torch tensors at the edge: shared with jax through DLPack, or carried to and from the host."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium import Space

from gymbridge.actions import ActionReader, LeafMaker, check_shape, integer_bounds
from gymbridge.arrays import Converter, Edge, map_arrays, own
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.requests import Device

__all__ = ["find_torch_device", "jax_to_torch", "make_torch_edge", "torch_to_jax", "upload_packed"]


def find_torch_device(device: Device) -> torch.device:
    """Return the device as torch knows it.

    Raises:
        ArgumentError: This build of torch has no such device.
    """
    try:
        return torch.empty(0, device=str(device)).device
    except (RuntimeError, AssertionError) as error:
        raise ArgumentError(
            f"`device` must be one that torch has, got '{device}': {error} A build of torch with "
            "CUDA is needed for 'cuda'; see https://pytorch.org/get-started."
        ) from error


def make_torch_edge(native: str, device: Device | None) -> Edge:
    """Return the edge to a user of torch tensors."""
    if native == "numpy":
        place = find_torch_device(device or Device("cpu", 0))
        show, reader = _make_uploader(place), _make_reader(place, _to_host)
        return Edge("torch", show, reader, _read_mask, device=place)
    import jax.numpy as jnp

    from gymbridge.arrays.jax import find_jax_device
    from gymbridge.requests import read_device

    source = read_device(find_jax_device(device))
    assert source is not None
    place = find_torch_device(source)
    show, hand_over = (own, own) if native == "torch" else (jax_to_torch, torch_to_jax)
    reader = _make_reader(place, hand_over)
    return Edge("torch", show, reader, _read_mask, where=jnp.where, device=place)


def jax_to_torch(tree: Any) -> Any:
    """Return a tree of jax arrays as tensors on the same device, sharing their memory."""
    return map_arrays(torch.from_dlpack, tree)


def torch_to_jax(tensor: torch.Tensor) -> Any:
    """Return a copy of a tensor as an argument for a compiled function of jax.

    A copy, so that writing into the tensor later cannot meet a computation that still runs. On the
    CPU it is a numpy array, which a compiled function takes for an eighth of `jax.dlpack`'s cost.
    """
    try:
        copy = tensor.detach().clone(memory_format=torch.contiguous_format)
        if copy.device.type == "cpu":
            return copy.numpy()
    except RuntimeError as error:
        raise ArgumentTypeError(
            "A tensor for jax must hold values, which one inside a transformation of torch.func "
            f"does not ({error}); a batch has a state and cannot be stepped there."
        ) from error
    import jax.dlpack

    return jax.dlpack.from_dlpack(copy)


def _read_mask(mask: Any) -> Any:
    if isinstance(mask, np.ndarray):
        return mask
    if not isinstance(mask, torch.Tensor):
        raise ArgumentTypeError(
            "`options['reset_mask']` must be a torch.Tensor or a numpy array, got "
            f"{type(mask).__name__}."
        )
    if (mask.dtype, mask.layout, mask.is_meta) != (torch.bool, torch.strided, False):
        raise ArgumentTypeError(
            "`options['reset_mask']` must be a dense tensor of torch.bool, got "
            f"{mask.layout} of {mask.dtype} on '{mask.device}'."
        )
    return mask.cpu().numpy()


def _to_host(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


def _make_uploader(place: torch.device) -> Converter:
    """Return the function from a tree of numpy arrays to tensors on a device."""
    if place.type == "cpu":
        return partial(map_arrays, torch.from_numpy)
    return partial(upload_packed, place=place, pin=True)


def upload_packed(tree: Any, place: torch.device, *, pin: bool) -> Any:
    """Return a tree of numpy arrays as tensors on a device, in one transfer that waits for nothing.

    The arrays travel as one buffer of bytes, of which the tensors are parts. A pinned buffer is
    kept by torch until its transfer is over.
    """
    leaves: list[np.ndarray] = []
    map_arrays(leaves.append, tree)
    starts = np.cumsum([0, *(-(-leaf.nbytes // 16) * 16 for leaf in leaves)]).tolist()
    host = torch.empty(starts[-1], dtype=torch.uint8, pin_memory=pin, device="cpu")
    target = host.numpy()
    for start, leaf in zip(starts, leaves, strict=False):
        target[start : start + leaf.nbytes] = np.ascontiguousarray(leaf).reshape(-1).view(np.uint8)
    packed, places = host.to(place, non_blocking=True), iter(starts)

    def take(leaf: np.ndarray) -> torch.Tensor:
        start, dtype = next(places), torch.from_numpy(np.empty(0, leaf.dtype)).dtype
        return packed[start : start + leaf.nbytes].view(dtype).view(leaf.shape)

    return map_arrays(take, tree)


def _make_reader(place: torch.device, hand_over: Converter) -> LeafMaker:
    """Return the maker of readers that check shape, dtype and device, and clip integers."""

    def make_leaf(space: Space[Any], lead: tuple[int, ...]) -> ActionReader:
        shape = (*lead, *(space.shape or ()))
        dtype = torch.from_numpy(np.empty(0, space.dtype)).dtype
        cast = _make_cast(space, dtype, place)

        def read(actions: Any) -> Any:
            _check_tensor(actions, place)
            check_shape(actions, shape)
            if actions.dtype != dtype:
                _check_castable(actions, dtype, space)
            return hand_over(cast(actions))

        return read

    return make_leaf


def _make_cast(space: Space[Any], dtype: torch.dtype, place: torch.device) -> Converter:
    """Return the function that puts tensors into a dtype and integers into the space."""
    if dtype.is_floating_point:
        return lambda actions: actions.to(dtype)
    low, high = (torch.as_tensor(bound, device=place) for bound in integer_bounds(space))
    return lambda actions: torch.clamp(actions.to(torch.int64), low, high).to(dtype)


def _check_tensor(actions: Any, place: torch.device) -> None:
    if not isinstance(actions, torch.Tensor):
        raise ArgumentTypeError(
            f"`actions` must be a torch.Tensor with `arrays='torch'`, got "
            f"{type(actions).__name__}; use torch.as_tensor(actions, device='{place}'), or build "
            "the batch with `arrays='numpy'`."
        )
    if actions.device != place:
        raise ArgumentError(
            f"`actions` must be on '{place}', where the environments are, got "
            f"'{actions.device}'; use actions.to('{place}')."
        )
    if actions.layout != torch.strided:
        raise ArgumentTypeError(
            f"`actions` must be a dense tensor, got {actions.layout}; use actions.to_dense()."
        )


def _check_castable(actions: torch.Tensor, dtype: torch.dtype, space: Space[Any]) -> None:
    if dtype.is_floating_point:
        if not torch.can_cast(actions.dtype, dtype):
            raise ArgumentTypeError(
                f"`actions` must be castable to {dtype} (numpy's 'same_kind'), got {actions.dtype}."
            )
    elif actions.dtype.is_floating_point or actions.dtype.is_complex:
        raise ArgumentTypeError(f"`actions` must be integers for {space}, got {actions.dtype}.")
