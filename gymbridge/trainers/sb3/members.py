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

__all__ = ["Members"]


class Members:
    """The members of the environments of a batch, whatever vector wrappers are around it.

    A batch that holds one `gymnasium.Env` per row, as `SyncVectorEnv` does, has those of each row.
    A batch of gymbridge, or with environments in other processes, is asked by `call` and
    `set_attr`, as `gymnasium.vector.AsyncVectorEnv` has them. In a batch without `call`, each
    environment has the attributes of the batch.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        self._batch: Any = envs.unwrapped
        self._all = range(envs.num_envs)
        rows = getattr(self._batch, "envs", None)
        is_rows = isinstance(rows, list | tuple) and all(isinstance(env, gym.Env) for env in rows)
        self._rows: Any = rows if is_rows else None

    def get(self, name: str, ids: Sequence[int]) -> list[Any]:
        """Return attribute `name` of the environments `ids`; a method is returned, not called."""
        if self._rows is not None:
            return [self._rows[index].get_wrapper_attr(name) for index in ids]
        if hasattr(self._batch, "call"):
            self._check_attribute(name)
            values = self._batch.call("get_wrapper_attr", name)
        else:
            single = f"single_{name}" if name in ("action_space", "observation_space") else name
            values = [getattr(self._batch, single)] * len(self._all)
        return [values[index] for index in ids]

    def set(self, name: str, value: Any, ids: Sequence[int]) -> None:
        """Set attribute `name` on the layer that has it, or else on the outermost wrapper.

        Where a batch keeps the attributes, all environments have it, so one that is set for some of
        them must be there already.

        Raises:
            ArgumentError: It is fixed when the batch is built.
        """
        if self._rows is not None:
            for index in ids:
                self._rows[index].set_wrapper_attr(name, value)
            return
        values = [value] * len(self._all)
        if {*ids} != {*self._all}:
            values = self.get(name, self._all)
            for index in ids:
                values[index] = value
        self._batch.set_attr(name, values)

    def call(self, name: str, ids: Sequence[int], *args: Any, **kwargs: Any) -> list[Any]:
        """Return what method `name` of the environments `ids` returns.

        Raises:
            ArgumentError: `ids` are some environments of a batch that can only call all of them.
        """
        if self._rows is None and name == "render":
            frames = self._batch.render() or (None,) * len(self._all)
            return [frames[index] for index in ids]
        if self._rows is not None or isinstance(self._batch, BridgeVectorEnv):
            return [method(*args, **kwargs) for method in self.get(name, ids)]
        if [*ids] != [*self._all]:
            raise ArgumentError(
                f"`indices` must be None for {type(self._batch).__name__}, which calls a method of "
                f"all environments at once, got {[*ids]}; use SyncVectorEnv."
            )
        self._check_attribute(name)
        return list(self._batch.call(name, *args, **kwargs))

    def are_wrapped(self, wrapper: type[Any], ids: Sequence[int]) -> list[bool]:
        """Return for each of `ids` whether a wrapper of that class is around it.

        Workers of `AsyncVectorEnv` send no classes, so names of classes are compared. A batch of
        gymbridge, or one without `call`, has no wrapped environments.
        """
        if self._rows is not None:
            return [is_wrapped(self._rows[index], wrapper) for index in ids]
        if isinstance(self._batch, BridgeVectorEnv) or not hasattr(self._batch, "call"):
            return [False for _ in ids]
        layers = [re.findall(r"<(\w+)", text) for text in self._batch.call("__str__")]
        return [wrapper.__name__ in layers[index] for index in ids]

    def _check_attribute(self, name: str) -> None:
        """Ask before anything is done: a worker of `AsyncVectorEnv` dies of an unknown name."""
        if not all(self._batch.call("has_wrapper_attr", name)):
            raise AttributeError(f"The environments of {self._batch} have no attribute {name!r}.")
