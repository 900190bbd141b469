"""What the wrappers have in common: their order, resets by a mask, snapshots and copies."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any, ClassVar

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from gymbridge.core.arrays.adapter import map_arrays
from gymbridge.core.episode import TimeStep
from gymbridge.core.requests import read_autoreset_mode
from gymbridge.core.snapshots import (
    SavesState,
    Snapshot,
    check_same_batch,
    check_snapshot,
    describe,
)
from gymbridge.core.spaces import keep_apart
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.wrappers.libraries import find_library, map_named

__all__ = ["BatchWrapper", "by_name", "find_idle", "find_moved"]


class BatchWrapper(SavesState, VectorWrapper):
    """A wrapper whose state is in the snapshots of the batch.

    A class changes a step in `_act` and `_follow`, and a reset in `_begin`. Its state is a tree of
    arrays, `_state`.

    Args:
        env: A batch, or a wrapper around one.
        **settings: The other arguments of the class, by name.

    Raises:
        ArgumentTypeError: `env` is not a vector environment.
        ArgumentError: `env` has a wrapper inside that belongs around this one.
    """

    belongs_inside: ClassVar[tuple[str, ...]] = ()
    """Names of wrappers, Gymnasium's too, that change what this one is meant for."""

    env: Any
    _state: Any = None

    def __init__(self, env: VectorEnv[Any, Any, Any], **settings: Any) -> None:
        self._check_order(env)
        super().__init__(env)
        keep_apart(self)
        self._settings, self._name = settings, type(self).__name__
        mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._mode = read_autoreset_mode(mode)
        self._library = find_library(getattr(env.unwrapped, "arrays", None) or "numpy")

    def _check_order(self, env: Any) -> None:
        if not isinstance(env, VectorEnv):
            raise ArgumentTypeError(
                f"`env` must be a gymnasium.vector.VectorEnv, got {type(env).__name__}."
            )
        layer, name = env, type(self).__name__
        while isinstance(layer, VectorWrapper):
            inner = type(layer).__name__
            if inner in self.belongs_inside:
                advice = "leave one out" if inner == name else f"put {inner} around {name}"
                raise ArgumentError(f"`env` must have no {inner} inside {name}; {advice}.")
            layer = layer.env

    def __reduce__(self) -> Any:
        """Pickle and copy as the construction, as the batch does."""
        return partial(type(self), **self._settings), (self.env,)

    __copy__ = copy.deepcopy  # around a copied batch, not around the same one

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes; see `BridgeVectorEnv.reset`. Running moments go on."""
        mask = np.ones(self.num_envs, np.bool_)
        if isinstance(options, dict):  # a copy, since some batches take the mask out
            mask, options = options.get("reset_mask", mask), dict(options)
        obs, infos = self.env.reset(seed=seed, options=options)
        return self._begin(obs, self._put(mask)), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take a step; see `BridgeVectorEnv.step`."""
        return self._follow(TimeStep(*self.env.step(self._act(actions))), None)

    def step_some(self, actions: Any, mask: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take a step of some environments; see `BridgeVectorEnv.step_some`."""
        time_step = TimeStep(*self.env.step_some(self._act(actions), mask))
        return self._follow(time_step, self._put(mask))

    def detach(self) -> Any:
        """Cut the graph of a differentiable batch, and return the current observation."""
        obs = self.env.detach()
        self._state = map_arrays(self._library.detach, self._state)
        return self._current(obs)

    def get_state(self) -> Snapshot:
        """Return the state of the batch, with that of this wrapper.

        Raises:
            ArgumentError: A wrapper inside has the same name in snapshots, or there is one of
                another package between this one and the batch.
            ResetNeededError: Before the first `reset`.
        """
        state = self._inner().get_state()
        if self._state is None:
            return state
        if self._name in state.batch:
            raise ArgumentError(f"Two wrappers here are {self._name}; leave one out or rename it.")
        own = by_name(map_arrays(self._library.to_numpy, self._state), self._name)
        batch = {**state.batch, self._name: describe(self._settings)}
        return Snapshot(batch, state.seeds, {**state.leaves, **own})

    def set_state(self, state: Snapshot) -> Any:
        """Restore batch and wrapper from a snapshot, and return the current observation.

        Raises:
            ArgumentTypeError: `state` is not a `Snapshot`.
            ArgumentError: `state` is of a batch without this wrapper or with other arguments of it,
                or breaks a rule of `FunctionalVectorEnv.set_state`.
        """
        check_snapshot(state)
        if self._state is None:
            return self._current(self._inner().set_state(state))
        batch, leaves = dict(state.batch), dict(state.leaves)
        found = {self._name: batch.pop(self._name, "nothing")}
        check_same_batch(found, {self._name: describe(self._settings)})
        own = self._restore(self._state, self._name, leaves)
        obs = self._inner().set_state(Snapshot(batch, state.seeds, leaves))
        self._state = own
        return self._current(obs)

    def _act(self, actions: Any) -> Any:
        """Return the actions of the batch."""
        return actions

    def _begin(self, obs: Any, rows: Any) -> Any:
        """Return observations after a reset of the rows of a mask."""
        return obs

    def _follow(self, time_step: TimeStep, some: Any) -> TimeStep:
        """Return what a step returns; `some` is the mask of `step_some`, else None."""
        return time_step

    def _current(self, obs: Any) -> Any:
        """Return what the user sees of the batch's current observation."""
        return obs

    def _put(self, values: Any) -> Any:
        device = getattr(self.unwrapped, "device", None)
        return self._library.put(values, device, self.num_envs)

    def _restore(self, like: Any, name: str, leaves: dict[str, Any]) -> Any:
        """Return a tree like another one, with arrays that are taken out by their dotted names."""

        def restore(path: str, leaf: Any) -> Any:
            value, shape = np.asarray(leaves.pop(path, None)), tuple(leaf.shape)
            found = "nothing" if value.dtype == object else value.shape
            if found != shape:
                raise ArgumentError(f"`{path}` must be an array of shape {shape}, got {found}.")
            return self._put(value.astype(np.result_type(value, self._library.to_numpy(leaf))))

        return map_named(restore, like, name)

    def _inner(self) -> Any:
        if isinstance(self.env, VectorWrapper) and not isinstance(self.env, SavesState):
            raise ArgumentError(
                f"A snapshot would lose the state of {type(self.env).__name__}; put "
                f"{type(self).__name__} around the batch itself."
            )
        return self.env


def by_name(tree: Any, name: str) -> dict[str, Any]:
    """Return the arrays of a tree by their dotted names."""
    named: dict[str, Any] = {}
    map_named(named.setdefault, tree, name)
    return named


def find_idle(mode: AutoresetMode, ended: Any) -> Any:
    """Return the mask of the rows that ended and take no step before they begin again."""
    return ended & ~ended if mode == AutoresetMode.SAME_STEP else ended


def find_moved(idle: Any, some: Any) -> Any:
    """Return the mask of the rows that take a step; `some` is the mask of `step_some`, or None."""
    return ~idle if some is None else ~idle & some
