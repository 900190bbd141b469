"""TorchRL's specs for Gymnasium's spaces and for the infos of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import Space, spaces
from torchrl.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    TensorSpec,
    Unbounded,
)

from gymbridge.core.actions import int64_bounds
from gymbridge.core.rows import is_mask
from gymbridge.errors import ArgumentError

__all__ = [
    "from_one_hot",
    "read_infos",
    "to_action_spec",
    "to_info_spec",
    "to_observation_specs",
    "widen",
]

_OF_SPECS = ("batch_size", "data_cls", "device", "names", "shape", "step_mdp_static")
"""Names that TorchRL's `Composite` takes for its own arguments."""

_RESERVED = (*_OF_SPECS, "action", "done", "info", "next", "reward", "terminated", "truncated")
_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


def to_action_spec(space: Space[Any], is_categorical: bool) -> TensorSpec:
    """Return the spec of one action; raise `ArgumentError` if TorchRL has none for the space."""
    if isinstance(space, spaces.Discrete) and space.start == 0:
        n, one = int(space.n), torch.Size([])
        return Categorical(n, one) if is_categorical else OneHot(n, dtype=torch.int64)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1 and not space.start.any():
        kind = MultiCategorical if is_categorical else MultiOneHot
        return kind(space.nvec.tolist(), dtype=torch.int64)
    if isinstance(space, spaces.Dict):
        return Composite({key: to_action_spec(sub, True) for key, sub in space.spaces.items()})
    return _to_spec("action_space", space)


def from_one_hot(actions: torch.Tensor, space: Space[Any]) -> torch.Tensor:
    """Return the integers of one-hot actions, (num_envs, ...) int64."""
    actions = actions.long() if actions.dtype == torch.bool else actions
    if not isinstance(space, spaces.MultiDiscrete):
        return actions.argmax(-1)
    parts = actions.split(space.nvec.tolist(), -1)
    return torch.stack([part.argmax(-1) for part in parts], -1)


def to_observation_specs(space: Space[Any]) -> dict[str, TensorSpec]:
    """Return the specs of the entries of one observation, whose keys TorchRL may not use itself."""
    parts = space.spaces if isinstance(space, spaces.Dict) else {"observation": space}
    for key in parts:
        if key in _RESERVED or key.startswith("_"):
            raise ArgumentError(
                f"`envs` must not have observations under {key!r}, which TorchRL uses itself; give "
                "the environment another key."
            )
    return {key: _to_spec("observation_space", sub) for key, sub in parts.items()}


def _to_spec(name: str, space: Space[Any]) -> TensorSpec:
    if isinstance(space, spaces.Dict):
        return Composite({key: _to_spec(name, sub) for key, sub in space.spaces.items()})
    if isinstance(space, spaces.MultiBinary):
        return Binary(shape=torch.Size(space.shape), dtype=_to_dtype(space.dtype))
    if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete):
        raise ArgumentError(f"`{name}` must be made of arrays, as TorchRL expects, got {space}.")
    bounds = (space.low, space.high) if isinstance(space, spaces.Box) else int64_bounds(space)
    dtype, shape = _to_dtype(space.dtype), torch.Size(np.shape(bounds[0]))
    if np.isinf(bounds).all():
        return Unbounded(shape, dtype=dtype)
    low, high = (widen(torch.tensor(bound)) for bound in bounds)
    return Bounded(low, high, shape, dtype=dtype)


def to_info_spec(infos: dict[str, Any], batch: torch.Size) -> Composite:
    """Return the spec of infos like these, without bounds; TorchRL may not use a key itself."""
    entries: dict[str, TensorSpec] = {}
    for key, value in infos.items():
        if key in _OF_SPECS:
            raise ArgumentError(
                f"`envs` must not have infos under {key!r}, which TorchRL uses itself; leave it "
                "out by `info_keys`."
            )
        if isinstance(value, dict):
            entries[key] = to_info_spec(value, batch)
        else:
            entries[key] = Unbounded(value.shape, dtype=value.dtype)
    return Composite(entries, shape=batch)


def read_infos(infos: dict[str, Any]) -> dict[str, Any]:
    """Return infos widened, and without the masks beside their keys, True everywhere in a step."""
    return {
        key: read_infos(value) if isinstance(value, dict) else widen(value)
        for key, value in infos.items()
        if not is_mask(key, infos)
    }


def widen(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with int64 in place of unsigned integers of more than a byte."""
    return tensor.long() if tensor.dtype in _UNSIGNED else tensor


def _to_dtype(dtype: Any) -> torch.dtype:
    return widen(torch.as_tensor(np.zeros((), dtype))).dtype
