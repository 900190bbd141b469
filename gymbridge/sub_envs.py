"""Attributes of the single environments in a batch, in `SyncVectorEnv`'s manner.

A batch has no environment objects inside, so an attribute is looked up in turn among those set by
`set_attr`, those that Gymnasium defines for one environment, and those of the engine's object.
"""

from __future__ import annotations

from typing import Any

from gymnasium.vector import VectorEnv

from gymbridge.episode import Simulator
from gymbridge.errors import ArgumentError

__all__ = ["SubEnvs"]

_SHARED = {
    "action_space": "single_action_space",
    "observation_space": "single_observation_space",
    "metadata": "metadata",
    "render_mode": "render_mode",
    "spec": "spec",
}
_PER_ENV = ("np_random_seed",)


class SubEnvs:
    """What `SyncVectorEnv` would ask its environments for.

    Args:
        simulator: Provider of the engine's object.
    """

    def __init__(self, simulator: Simulator[Any]) -> None:
        self._simulator = simulator
        self._attributes: dict[str, tuple[Any, ...]] = {}

    def call(
        self, envs: VectorEnv[Any, Any, Any], name: str, *args: Any, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Return attribute `name` of each environment, called with the arguments if it can be.

        ``get_wrapper_attr`` and ``has_wrapper_attr`` are those of `gymnasium.Env`; ``render``
        without a render mode gives Nones, which skrl's trainers call in every step by default.

        Raises:
            AttributeError: No environment has it.
        """
        if name == "get_wrapper_attr":
            return self._read(envs, *args, **kwargs)
        if name == "has_wrapper_attr":
            return (self._has(envs, *args, **kwargs),) * envs.num_envs
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
        if name in _PER_ENV:
            return getattr(envs, name)
        owner, name = (envs, _SHARED[name]) if name in _SHARED else (self._simulator.engine, name)
        return (getattr(owner, name),) * envs.num_envs

    def _has(self, envs: VectorEnv[Any, Any, Any], name: str) -> bool:
        try:
            self._read(envs, name)
        except AttributeError:
            return name == "render"
        return True

    def set_attr(self, envs: VectorEnv[Any, Any, Any], name: str, values: Any) -> None:
        """Give each environment an attribute of that name.

        Raises:
            ArgumentError: A list of another length than num_envs, or the name of an attribute that
                the batch shares: the simulation is built with it, so setting it would change
                nothing.
        """
        if name in _SHARED or name in _PER_ENV or hasattr(self._simulator.engine, name):
            raise ArgumentError(
                f"`{name}` belongs to the simulation that all environments share and was built in; "
                "pass it to the constructor of a new batch."
            )
        per_env = tuple(values) if isinstance(values, list | tuple) else (values,) * envs.num_envs
        if len(per_env) != envs.num_envs:
            raise ArgumentError(
                "Values must be a list or tuple with length equal to the number of environments. "
                f"Got `{len(per_env)}` values for {envs.num_envs} environments."
            )
        self._attributes[name] = per_env
