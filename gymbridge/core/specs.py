"""How a batch is built again: from its arguments, or from the `EnvSpec` that Gymnasium keeps.

A spec has the arguments that are in force, as values that JSON can hold. Only functions and other
objects that a user gave stay as they are.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv

__all__ = ["fit_spec", "name_device", "reduce_batch"]


def fit_spec(spec: EnvSpec | None, limit: int | None, mode: AutoresetMode) -> EnvSpec | None:
    """Return a copy of a spec with the limit and the mode in force, whose keywords JSON can hold.

    Devices are there by name. Gymnasium's spec has the task's own limit, whatever the user gave.
    """
    if spec is None:
        return None
    spec = copy.copy(spec)
    # Before `deepcopy`, since a `jax.Device` cannot be copied.
    spec.kwargs = _to_plain(spec.kwargs)
    spec = copy.deepcopy(spec)
    spec.max_episode_steps = limit
    if "max_episode_steps" in spec.kwargs:
        del spec.kwargs["max_episode_steps"]  # `make_vec` passes the spec's on.
        if limit is None:  # In a spec, None means the task's own limit.
            spec.kwargs["max_episode_steps"] = -1
    if "autoreset_mode" in spec.kwargs:
        spec.kwargs["autoreset_mode"] = mode.value  # JSON has no enums.
    return spec


def reduce_batch(envs: VectorEnv[Any, Any, Any], args: Sequence[Any], kwargs: Any) -> Any:
    """Return how a batch is pickled: as its arguments, with devices by name, and its spec."""
    kwargs = {key: name_device(value) for key, value in kwargs.items()}
    return _rebuild, (type(envs), tuple(map(name_device, args)), kwargs, envs.spec)


def _rebuild(kind: type[Any], args: Any, kwargs: dict[str, Any], spec: EnvSpec | None) -> Any:
    envs = kind(*args, **kwargs)
    envs.spec = spec
    return envs


def _to_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _to_plain(entry) for key, entry in cast("dict[Any, Any]", value).items()}
    if isinstance(value, np.ndarray | np.generic):
        return cast("np.ndarray | np.generic", value).tolist()
    if isinstance(value, set | frozenset):
        return sorted(cast("set[Any] | frozenset[Any]", value))
    if isinstance(value, list | tuple):
        return [_to_plain(entry) for entry in cast("Sequence[Any]", value)]
    return name_device(value)


def name_device(value: Any) -> Any:
    """Return the name of a `jax.Device` or `torch.device`, also inside a list; others as they are.

    A `jax.Device` cannot be pickled, and JSON knows neither.
    """
    if type(value) in (list, tuple):
        return type(value)(map(name_device, value))
    if hasattr(value, "mesh") and hasattr(value, "spec"):  # a `jax.sharding.NamedSharding`
        return name_device(list(value.mesh.devices.flat))
    jax, torch = sys.modules.get("jax"), sys.modules.get("torch")
    if jax is not None and isinstance(value, jax.Device):
        return f"{'cuda' if value.platform == 'gpu' else value.platform}:{value.id}"
    if torch is not None and isinstance(value, torch.device):
        return str(value)
    return value
