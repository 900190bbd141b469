"""Attributes of the single environments in a batch, in `SyncVectorEnv`'s manner.

A batch has no environment objects inside, so an attribute is looked up in turn among those set by
`set_attr`, those that Gymnasium defines for one environment, and those of the engine's object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymbridge.errors import ArgumentError

if TYPE_CHECKING:
    from gymbridge.vector_env import BridgeVectorEnv

__all__ = ["call", "set_attr"]

_SHARED = {
    "action_space": "single_action_space",
    "observation_space": "single_observation_space",
    "metadata": "metadata",
    "render_mode": "render_mode",
    "spec": "spec",
}
_PER_ENV = ("np_random_seed",)


def call(envs: BridgeVectorEnv, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Return attribute `name` of each environment, called with the arguments if it is callable.

    Raises:
        AttributeError: No environment has it.
    """
    if name in envs._attributes:
        own = envs._attributes[name]
        return tuple(value(*args, **kwargs) if callable(value) else value for value in own)
    if name in _PER_ENV:
        return getattr(envs, name)
    if name == "render":
        frames = envs.render()
        return (None,) * envs.num_envs if frames is None else tuple(frames)
    if name in _SHARED:
        value = getattr(envs, _SHARED[name])
    else:
        value = getattr(envs._simulator.engine, name)
    if callable(value):
        value = value(*args, **kwargs)
    return (value,) * envs.num_envs


def set_attr(envs: BridgeVectorEnv, name: str, values: Any) -> None:
    """Give each environment an attribute of that name.

    Raises:
        ArgumentError: A list of another length than num_envs, or the name of an attribute that the
            batch shares: the simulation is built with it, so setting it would change nothing.
    """
    if name in _SHARED or name in _PER_ENV or hasattr(envs._simulator.engine, name):
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
    envs._attributes[name] = per_env
