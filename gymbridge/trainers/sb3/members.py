"""Attributes and methods of single environments in a batch, by index."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv
from stable_baselines3.common.env_util import is_wrapped

from gymbridge.core.vector_env import BridgeVectorEnv
from gymbridge.errors import ArgumentError

__all__ = ["BatchMembers", "EnvMembers", "find_members"]


class EnvMembers:
    """The members of a batch that holds one `gymnasium.Env` per row, as `SyncVectorEnv` does."""

    def __init__(self, envs: Sequence[gym.Env[Any, Any]]) -> None:
        self._envs = envs

    def get(self, name: str, ids: Sequence[int]) -> list[Any]:
        """Return attribute `name` of the environments `ids`; a method is returned, not called."""
        return [self._envs[index].get_wrapper_attr(name) for index in ids]

    def set(self, name: str, value: Any, ids: Sequence[int]) -> None:
        """Set attribute `name` on the layer that has it, or else on the outermost wrapper."""
        for index in ids:
            self._envs[index].set_wrapper_attr(name, value)

    def call(self, name: str, ids: Sequence[int], *args: Any, **kwargs: Any) -> list[Any]:
        """Return what method `name` of the environments `ids` returns."""
        return [method(*args, **kwargs) for method in self.get(name, ids)]

    def are_wrapped(self, wrapper: type[Any], ids: Sequence[int]) -> list[bool]:
        """Return for each of `ids` whether a wrapper of that class is around it."""
        return [is_wrapped(self._envs[index], wrapper) for index in ids]


class BatchMembers:
    """The members of a batch without environment objects inside, or with them in other processes.

    The batch, without wrappers, is used by `call`, `get_attr` and `set_attr` as
    `gymnasium.vector.AsyncVectorEnv` has them. Without `call`, each environment has the attributes
    of the batch.

    An attribute that is set for some environments and that the others lack is kept in this object,
    since a batch cannot store it. So are all attributes that are set if the batch has no
    `set_attr`.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        self._envs: Any = envs
        self._all = range(envs.num_envs)
        self._own: list[dict[str, Any]] = [{} for _ in self._all]

    def get(self, name: str, ids: Sequence[int]) -> list[Any]:
        """Return attribute `name` of the environments `ids`; a method is returned, not called."""
        is_known = all(name in self._own[index] for index in ids)
        values = () if is_known else self._read(name)
        return [
            self._own[index][name] if name in self._own[index] else values[index] for index in ids
        ]

    def set(self, name: str, value: Any, ids: Sequence[int]) -> None:
        """Set attribute `name`; raise `ArgumentError` if it is fixed when the batch is built."""
        values = self._merge(name, value, ids)
        if isinstance(self._envs, BridgeVectorEnv):
            self._envs.sub_envs.check_settable(self._envs, name)
        if values is None or not hasattr(self._envs, "set_attr"):
            for index in ids:
                self._own[index][name] = value
            return
        self._envs.set_attr(name, values)
        for own in self._own:
            own.pop(name, None)

    def call(self, name: str, ids: Sequence[int], *args: Any, **kwargs: Any) -> list[Any]:
        """Return what method `name` of the environments `ids` returns.

        Raises:
            ArgumentError: `ids` are some environments of a batch that can only call all of them.
        """
        if name == "render":
            frames = self._envs.render() or (None,) * len(self._all)
            return [frames[index] for index in ids]
        if isinstance(self._envs, BridgeVectorEnv):
            return [method(*args, **kwargs) for method in self.get(name, ids)]
        if [*ids] != [*self._all]:
            raise ArgumentError(
                f"`indices` must be None for {type(self._envs).__name__}, which calls a method of "
                f"all environments at once, got {[*ids]}; use SyncVectorEnv."
            )
        self._check_attribute(name)
        return list(self._envs.call(name, *args, **kwargs))

    def are_wrapped(self, wrapper: type[Any], ids: Sequence[int]) -> list[bool]:
        """Return for each of `ids` whether a wrapper of that class is around it.

        Workers of `AsyncVectorEnv` send no classes, so names of classes are compared, those of
        subclasses included. A batch of gymbridge, or one without `call`, has no wrapped
        environments.
        """
        if isinstance(self._envs, BridgeVectorEnv) or not hasattr(self._envs, "call"):
            return [False for _ in ids]
        names = {kind.__name__ for kind in _with_subclasses(wrapper)}
        layers = [re.findall(r"<(\w+)", text) for text in self._envs.call("__str__")]
        return [not names.isdisjoint(layers[index]) for index in ids]

    def _merge(self, name: str, value: Any, ids: Sequence[int]) -> list[Any] | None:
        """Return what all environments have once `ids` have `value`; None if some lack it."""
        if {*ids} == {*self._all}:
            return [value] * len(self._all)
        try:
            values = self.get(name, self._all)
        except AttributeError:
            return None
        return [value if index in ids else values[index] for index in self._all]

    def _read(self, name: str) -> Sequence[Any]:
        if not hasattr(self._envs, "call"):
            single = f"single_{name}" if name in ("action_space", "observation_space") else name
            return [getattr(self._envs, single)] * len(self._all)
        self._check_attribute(name)
        return self._envs.call("get_wrapper_attr", name)

    def _check_attribute(self, name: str) -> None:
        """Ask before anything is done: a worker of `AsyncVectorEnv` dies of an unknown name."""
        if not all(self._envs.call("has_wrapper_attr", name)):
            raise AttributeError(f"The environments of {self._envs} have no attribute {name!r}.")


def find_members(envs: VectorEnv[Any, Any, Any]) -> EnvMembers | BatchMembers:
    """Return the members of a batch, whatever vector wrappers are around it."""
    inside = getattr(envs.unwrapped, "envs", None)
    if isinstance(inside, list | tuple) and all(isinstance(env, gym.Env) for env in inside):
        return EnvMembers(inside)
    return BatchMembers(envs.unwrapped)


def _with_subclasses(kind: type[Any]) -> list[type[Any]]:
    return [kind, *(one for sub in kind.__subclasses__() for one in _with_subclasses(sub))]
