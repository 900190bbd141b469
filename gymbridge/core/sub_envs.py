"""Attributes of the single environments in a batch, with the methods of `SyncVectorEnv`.

A batch has no environment objects inside, so an attribute is looked up in turn among those set by
`set_attr`, those that Gymnasium defines for one environment, and those of the engine's object.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, cast

from gymnasium.vector import VectorEnv

from gymbridge.core.episode import Simulator
from gymbridge.errors import ArgumentError

__all__ = ["SubEnvs"]

_SHARED = {
    "action_space": "single_action_space",
    "observation_space": "single_observation_space",
    "metadata": "metadata",
    "render_mode": "render_mode",
    "spec": "spec",
}


class SubEnvs:
    """The attributes that `SyncVectorEnv` would read from its environments."""

    def __init__(self, simulator: Simulator[Any]) -> None:
        self._simulator = simulator
        self._attributes: dict[str, tuple[Any, ...]] = {}

    def call(
        self, envs: VectorEnv[Any, Any, Any], name: str, *args: Any, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Return attribute `name` of each environment, or what it returns if it is callable.

        ``get_wrapper_attr`` and ``has_wrapper_attr`` are those of `gymnasium.Env`. Without a render
        mode ``render`` returns Nones, because skrl's trainers call it in every step by default.
        """
        if name == "get_wrapper_attr":
            return self._read(envs, *args, **kwargs)
        if name == "has_wrapper_attr":
            return (self._has(*args, **kwargs),) * envs.num_envs
        if name == "render":
            frames = None if envs.render_mode is None else envs.render()
            return (None,) * envs.num_envs if frames is None else tuple(frames)
        values = self._read(envs, name)
        if name in self._attributes:
            return tuple(value(*args, **kwargs) if callable(value) else value for value in values)
        if callable(values[0]):  # the one object that they share
            return (values[0](*args, **kwargs),) * envs.num_envs
        return values

    def _read(self, envs: VectorEnv[Any, Any, Any], name: str) -> tuple[Any, ...]:
        """Return attribute `name` of each environment as it is, a method too."""
        if name in self._attributes:
            return self._attributes[name]
        if name == "np_random_seed":
            return getattr(envs, name)
        owner, name = (envs, _SHARED[name]) if name in _SHARED else (self._simulator.engine, name)
        return (getattr(owner, name),) * envs.num_envs

    def _has(self, name: str) -> bool:
        known = {*self._attributes, *_SHARED, "np_random_seed", "render"}
        return name in known or _defines(self._simulator.engine, name)

    def set_attr(self, envs: VectorEnv[Any, Any, Any], name: str, values: Any) -> None:
        """Give each environment an attribute of that name; see `BridgeVectorEnv.set_attr`."""
        self._check_settable(envs, name)
        per_env: tuple[Any, ...] = (values,) * envs.num_envs
        if isinstance(values, list | tuple):
            per_env = tuple(cast("Sequence[Any]", values))
        if len(per_env) != envs.num_envs:
            raise ArgumentError(
                "Values must be a list or tuple with length equal to the number of environments. "
                f"Got `{len(per_env)}` values for {envs.num_envs} environments."
            )
        self._attributes[name] = per_env

    def _check_settable(self, envs: VectorEnv[Any, Any, Any], name: str) -> None:
        first = name.partition(".")[0]  # "opt" of "opt.gravity"
        is_fixed = (
            _defines(envs, first.removeprefix("_"))
            or any(_defines(self._simulator.engine, one) for one in (first, f"_{first}"))
            or first in _field_names(self._simulator.built_with)
            or first in inspect.signature(type(envs.unwrapped).__init__).parameters
        )
        if is_fixed:
            raise ArgumentError(
                f"`{name}` belongs to the simulation and is fixed when the batch is built, so "
                "setting it would change nothing; if the task takes it as a keyword, pass it to "
                "the constructor of a new batch."
            )


def _defines(owner: object, name: str) -> bool:
    """Return whether an object has an attribute, without running its properties."""
    try:
        inspect.getattr_static(owner, name)
    except AttributeError:
        inside = getattr(owner, "__dict__", {}).get("env")  # What a wrapper is around.
        if inside is not None and _defines(inside, name):
            return True
        return hasattr(type(owner), "__getattr__") and hasattr(owner, name)
    return True


def _field_names(value: Any) -> set[str]:
    """Return the names of the fields of a named tuple or dataclass, and of those inside it."""
    names = {*getattr(value, "_fields", ()), *getattr(value, "__dataclass_fields__", ())}
    return names.union(*(_field_names(getattr(value, name, None)) for name in names))
