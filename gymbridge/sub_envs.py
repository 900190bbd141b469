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

        Raises:
            AttributeError: No environment has it.
        """
        if name in self._attributes:
            own = self._attributes[name]
            return tuple(value(*args, **kwargs) if callable(value) else value for value in own)
        if name in _PER_ENV:
            return getattr(envs, name)
        if name == "render":
            frames = envs.render()
            return (None,) * envs.num_envs if frames is None else tuple(frames)
        if name in _SHARED:
            value = getattr(envs, _SHARED[name])
        else:
            value = getattr(self._simulator.engine, name)
        if callable(value):
            value = value(*args, **kwargs)
        return (value,) * envs.num_envs

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
