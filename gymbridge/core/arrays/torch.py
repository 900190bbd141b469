"""The adapter to torch tensors: shared with jax through DLPack, or copied to and from the host."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium import Space

from gymbridge.core.actions import ActionReader
from gymbridge.core.arrays.adapter import (
    ArrayAdapter,
    ArrayReader,
    Converter,
    gather_array,
    identity,
    list_arrays,
    map_arrays,
)
from gymbridge.core.arrays.packing import PLAIN, Packed
from gymbridge.core.devices import Place, read_device
from gymbridge.errors import ArgumentError, ArgumentTypeError

__all__ = [
    "choose_to_torch",
    "make_tensor_adapter",
    "make_torch_adapter",
    "torch_to_jax",
    "upload_packed",
]

_SMALL = 1 << 18
"""Bytes up to which an array on the CPU is copied, which takes less time than DLPack."""


def make_torch_adapter(native: str, device: Place | None) -> ArrayAdapter:
    """Return the adapter to a user of torch tensors."""
    adapt = partial(ArrayAdapter, "torch", read_mask=_read_mask)
    if native == "numpy":
        place = _find_device(device)
        to_user = partial(upload_packed, place=place)
        if place.type == "cpu":
            to_user = partial(map_arrays, torch.from_numpy)
        reader = partial(_TensorReader, place=place, hand_over=_to_host)
        return adapt(to_user, reader, device=place)
    import jax.numpy as jnp

    from gymbridge.core.arrays.jax import pack_tree
    from gymbridge.core.arrays.jax_devices import find_jax_device

    found: Any = find_jax_device(device)
    named: Any = read_device(found)
    place = _find_device(named[0] if isinstance(named, tuple) else named)
    if native == "graph":
        to_user, hand_over, upload = identity, identity, _choose_upload(place)
    elif place.type == "cpu":
        to_user = partial(map_arrays, choose_to_torch(found))
        hand_over, upload = torch_to_jax, np.array
    else:
        to_user, hand_over = partial(_share_with_torch, place=place), torch_to_jax
        upload = partial(_upload_to_jax, place=place)
    reader = partial(_TensorReader, place=place, hand_over=hand_over, upload=upload)
    adapter = adapt(to_user, reader, library=jnp, device=place, pack=pack_tree)
    return adapter if place.type == "cpu" else adapter._replace(wait_for_reads=_make_waiter(place))


def make_tensor_adapter(device: Any, of_host: ArrayAdapter | None) -> ArrayAdapter:
    """Return the adapter of a simulator of tensors on a device, or on the CPU for None.

    `of_host` is the adapter between a simulator of numpy arrays and a user of other arrays. For
    None, the user gets the simulator's own tensors.
    """
    place = _find_device(device)
    send = _choose_upload(place)
    if of_host is None:
        # A policy's graph ends here: a simulator that writes into its buffers would extend it.
        reader = partial(_TensorReader, place=place, hand_over=torch.Tensor.detach, upload=send)
        adapter = ArrayAdapter("torch", identity, reader, read_mask=_read_mask, device=place)
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


def _find_device(device: Any) -> torch.device:
    """Return the device as torch knows it; the CPU for None."""
    try:
        is_cpu = device is None or device.kind == "cpu"
        return torch.empty(0, device="cpu" if is_cpu else str(device)).device
    except (RuntimeError, AssertionError) as error:
        raise ArgumentError(
            f"`device` must be one that torch has, got '{device}': {error} A build of torch with "
            "CUDA is needed for 'cuda'; see https://pytorch.org/get-started."
        ) from error


def choose_to_torch(place: Any) -> Converter:
    """Return the conversion of an array of jax to a tensor, and of what is packed to its tree."""
    if hasattr(place, "mesh"):
        return partial(_to_torch, fetch=gather_array)
    return partial(_to_torch, fetch=_fetch if place.platform == "cpu" else torch.from_dlpack)


def _to_torch(array: Any, fetch: Converter) -> Any:
    """Return a tensor, or the tree of tensors of what is packed.

    No two share a version counter: with views of one tensor, to write into one info would make a
    backward pass through another fail.
    """
    if not isinstance(array, Packed):
        found = fetch(array)
        return torch.from_numpy(found) if isinstance(found, np.ndarray) else found
    parts = array.take_apart([*map(fetch, array.buffers)])
    tensors = [torch.from_numpy(x) if type(x) is np.ndarray else x.data for x in parts]
    if array.buffers[0].ndim > 2:  # `unroll` stacks steps.
        tensors = [tensor.contiguous() for tensor in tensors]
    return array.structure.unflatten(tensors)


def _fetch(array: Any) -> Any:
    """Return a copy of a small array on the CPU, or a larger one as a tensor that shares memory."""
    is_copied = array.nbytes <= _SMALL and array.dtype.char in PLAIN
    return np.array(array) if is_copied else torch.from_dlpack(array)


def torch_to_jax(tensor: torch.Tensor) -> Any:
    """Return a copy of a tensor as an argument for a compiled function of jax.

    It is a copy, since the user may write into the tensor while the function still runs. On the CPU
    it is a numpy array, which is quicker to pass than an array made by `jax.dlpack`.
    """
    if tensor.device.type == "cpu":
        return np.array(_to_host(tensor), order="C")
    return _share_with_jax(tensor.detach().clone(memory_format=torch.contiguous_format))


def _to_host(tensor: torch.Tensor) -> np.ndarray:
    """Return the values of a tensor, on the CPU in its own memory."""
    try:
        return tensor.numpy(force=True)
    except RuntimeError as error:
        raise ArgumentTypeError(
            f"`actions` must hold values, got a tensor that has none ({error}). Tensors inside a "
            "transformation of torch.func have none: a batch has a state and cannot be stepped "
            "there."
        ) from error


def _share_with_jax(tensor: torch.Tensor) -> Any:
    """Return a tensor on a GPU as an array of jax, whose work waits for torch's current stream.

    Torch exports tensors of its current device alone.
    """
    import jax.dlpack

    with torch.cuda.device(tensor.device):
        return jax.dlpack.from_dlpack(tensor)


def _share_with_torch(tree: Any, place: torch.device) -> Any:
    """Return a tree of jax arrays on a GPU as tensors, for which torch's current stream waits.

    The stream is asked for once, since `torch.from_dlpack` takes longer to find it for each array
    than for all else.
    """
    stream = torch.cuda.current_stream(place).cuda_stream or 1  # DLPack's name of the default one

    def share(array: Any) -> torch.Tensor:
        return torch.from_dlpack(array.__dlpack__(stream=stream))

    return map_arrays(partial(_to_torch, fetch=share), tree)


def _make_waiter(place: torch.device) -> Callable[[], None]:
    """Return a function after which JAX's work on a GPU waits for torch's current stream.

    JAX writes into the memory of tensors that were dropped, though kernels that read these may
    still be queued. A step waits for them through its actions; this is for other calls.
    """
    import jax

    token = torch.zeros(1, device=place)
    follow = jax.jit(lambda token: token + 1)  # a kernel, which waits for what it reads
    return lambda: follow(_share_with_jax(token))


def _read_mask(name: str, mask: Any) -> Any:
    """Return a mask as numpy, or what was given, to be refused by others; see `ArrayAdapter`."""
    if isinstance(mask, np.ndarray):
        return mask
    if not isinstance(mask, torch.Tensor):
        raise ArgumentTypeError(
            f"{name} must be a torch.Tensor or a numpy array, got {type(mask).__name__}."
        )
    if (mask.dtype, mask.layout, mask.is_meta) != (torch.bool, torch.strided, False):
        raise ArgumentTypeError(
            f"{name} must be a dense tensor of torch.bool, got {mask.layout} of {mask.dtype} on "
            f"'{mask.device}'."
        )
    try:
        return mask.cpu().numpy()
    except RuntimeError as error:  # Nested tensors and torch.func's raise.
        raise ArgumentTypeError(f"{name} must hold bools that numpy can read: {error}") from error


def _choose_upload(place: torch.device) -> Converter:
    """Return the function from a numpy array to a new tensor on a device."""
    if place.type == "cpu":
        return partial(torch.tensor, device=place)
    return partial(upload_packed, place=place)


def _upload_to_jax(array: np.ndarray, place: torch.device) -> Any:
    """Return a numpy array as tensors come, so that a compiled function takes both alike."""
    return _share_with_jax(upload_packed(array, place))


def upload_packed(tree: Any, place: torch.device) -> Any:
    """Return copies of a tree of numpy arrays as tensors on a device, in one transfer.

    The arrays are transferred as one buffer of bytes. On the device each tensor is copied from it,
    because a view would keep the whole buffer alive. A transfer from pinned memory does not hold up
    the host, which would otherwise wait for all that is queued on the GPU. Torch keeps the pinned
    buffer until its transfer is over.
    """
    leaves = list_arrays(tree)
    padded = [leaf.tobytes().ljust(-(-leaf.nbytes // 16) * 16, b"\0") for leaf in leaves]
    sizes, pin = [*map(len, padded)], place.type != "cpu"
    host = torch.empty(sum(sizes), dtype=torch.uint8, pin_memory=pin, device="cpu")
    np.concatenate([np.frombuffer(part, np.uint8) for part in padded], out=host.numpy())
    parts = iter(host.to(place, non_blocking=True).split(sizes))

    def take(leaf: np.ndarray) -> torch.Tensor:
        dtype = torch.from_numpy(np.empty(0, leaf.dtype)).dtype
        return next(parts)[: leaf.nbytes].view(dtype).view(leaf.shape).clone()

    return map_arrays(take, tree)


class _TensorReader(ArrayReader):
    """Reads tensors on one device, and numpy arrays; see `ArrayReader`."""

    def __init__(self, space: Space[Any], lead: tuple[int, ...], **options: Any) -> None:
        super().__init__(space, lead, **options)
        self._kind = torch.from_numpy(np.empty(0, space.dtype)).dtype
        if not self._is_float:
            bounds = self._low, self._high
            self._bounds = [torch.as_tensor(bound, device=self._place) for bound in bounds]

    def _check(self, actions: Any) -> None:
        place = self._place
        if not isinstance(actions, torch.Tensor):
            raise ArgumentTypeError(
                "`actions` must be a torch.Tensor or a numpy array with `arrays='torch'`, got "
                f"{type(actions).__name__}; use torch.as_tensor(actions, device='{place}')."
            )
        if actions.device != place:
            raise ArgumentError(
                f"`actions` must be on '{place}', where the environments are, got "
                f"'{actions.device}'; use actions.to('{place}')."
            )
        if actions.layout != torch.strided or actions.is_nested or actions.is_quantized:
            kind = f"{actions.layout} of {actions.dtype}"
            raise ArgumentTypeError(
                f"`actions` must be a dense tensor, got "
                f"{'a nested tensor' if actions.is_nested else kind}; use "
                f"actions.{'dequantize' if actions.is_quantized else 'to_dense'}()."
            )

    def _cast(self, actions: torch.Tensor) -> torch.Tensor:
        if actions.dtype != self._kind:
            _check_castable(actions, self._kind, self._space)
        try:
            if not self._is_float:
                actions = torch.clamp(_to_int64(actions), *self._bounds)
            return actions.to(self._kind)
        except NotImplementedError as error:  # Torch cannot cast bits8 and uint4.
            raise ArgumentTypeError(
                f"`actions` must have a dtype that torch casts, got {actions.dtype}: {error}"
            ) from error


def _to_int64(actions: torch.Tensor) -> torch.Tensor:
    """Return integers as int64, those beyond it as its largest."""
    if actions.dtype != torch.uint64:
        return actions.to(torch.int64)
    signed = actions.view(torch.int64)  # Torch has hardly any arithmetic for uint64.
    return torch.where(signed < 0, torch.iinfo(torch.int64).max, signed)


def _check_castable(actions: torch.Tensor, dtype: torch.dtype, space: Space[Any]) -> None:
    if dtype.is_floating_point:
        if not torch.can_cast(actions.dtype, dtype):
            raise ArgumentTypeError(
                f"`actions` must be castable to {dtype} (numpy's 'same_kind'), got {actions.dtype}."
            )
    elif actions.dtype.is_floating_point or actions.dtype.is_complex:
        raise ArgumentTypeError(f"`actions` must be integers for {space}, got {actions.dtype}.")
