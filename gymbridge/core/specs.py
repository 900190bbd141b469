"""How a batch is built again: from its arguments, or from the `EnvSpec` that Gymnasium keeps.

A spec has the arguments that are in force, as values that JSON can hold. Only functions and other
objects that a user gave stay as they are.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from typing import Any, Self, cast

import numpy as np
from gymnasium import Space
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv

__all__ = ["KeepsSpec", "RebuildableVectorEnv", "name_device"]


class KeepsSpec:
    """An environment whose `spec` can be written as JSON.

    `gymnasium.make` and `make_vec` set the spec after construction.
    """

    _spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        """The spec from `gymnasium.make` or `make_vec`, with the time limit in force; or None."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        """Take what Gymnasium hands over after construction."""
        self._spec = None if spec is None else self._fit_spec(_plain_spec(spec))

    def _fit_spec(self, spec: EnvSpec) -> EnvSpec:
        """Return the spec with what is in force."""
        return spec


class RebuildableVectorEnv(  # pyright: ignore[reportIncompatibleVariableOverride]
    KeepsSpec, VectorEnv[Any, Any, Any]
):
    """A vector environment that is pickled and copied as its arguments.

    The copy is a new batch, which is not yet reset.

    Attributes:
        autoreset_mode: The mode in force.
        max_episode_steps: The limit in force, or None.
    """

    autoreset_mode: AutoresetMode
    max_episode_steps: int | None
    action_space: Space[Any]
    observation_space: Space[Any]
    single_action_space: Space[Any]
    single_observation_space: Space[Any]
    _construction: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Remember the construction: that is what is pickled."""
        envs = super().__new__(cls)
        envs._construction = (args, kwargs)
        return envs

    def __reduce__(self) -> Any:
        """Pickle and copy as the construction: a new batch of the same kind, not yet reset."""
        args, kwargs = self._construction
        args = tuple(name_device(value) for value in args)
        kwargs = {key: name_device(value) for key, value in kwargs.items()}
        return _rebuild, (type(self), args, kwargs, self._spec)

    def _fit_spec(self, spec: EnvSpec) -> EnvSpec:
        """Return the spec with the limit and the mode in force.

        Gymnasium's has the task's own limit, whatever the user gave.
        """
        spec.max_episode_steps = self.max_episode_steps
        if "max_episode_steps" in spec.kwargs:
            del spec.kwargs["max_episode_steps"]  # `make_vec` hands on that of the spec
            if self.max_episode_steps is None:  # in a spec that means the task's own
                spec.kwargs["max_episode_steps"] = -1
        if "autoreset_mode" in spec.kwargs:
            spec.kwargs["autoreset_mode"] = self.autoreset_mode.value  # JSON knows no enums
        return spec


def _rebuild(
    kind: type[RebuildableVectorEnv],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    spec: EnvSpec | None,
) -> RebuildableVectorEnv:
    envs = kind(*args, **kwargs)
    envs.spec = spec
    return envs


def _plain_spec(spec: EnvSpec) -> EnvSpec:
    """Return a copy whose keywords JSON can hold: devices by name, Python's numbers, lists."""
    spec = copy.copy(spec)
    spec.kwargs = _to_plain(spec.kwargs)  # first: a `jax.Device` cannot be copied
    return copy.deepcopy(spec)


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
