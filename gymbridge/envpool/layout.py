"""Where a pool's flat list of arrays holds observations, flags and infos, and how it takes actions.

A pool answers with one array per key, such as ``obs:image``, ``info:lives``, ``reward`` or
``done``; a colon or a dot opens a level (envpool/python/data.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import getitem, itemgetter
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from gymbridge.core.episode import TimeStep, split_done
from gymbridge.core.requests import read_info_keys
from gymbridge.private.envpool import Values, action_keys, state_keys

__all__ = ["Flags", "Layout", "copy_places", "to_space"]

Flags = tuple[np.ndarray, np.ndarray]
"""Terminated and truncated, each (num_envs,) bool."""

_IDS = ("env_id", "players.env_id", "players.id")


class Layout:
    """The places of one task's arrays, by EnvPool's spec of the task.

    `info_keys` is None for all infos except row ids and ``ram``, "all", or a list of names. A name
    that the task does not have is an `ArgumentError`. `more` are keys after those of the spec.
    """

    def __init__(
        self, spec: Any, info_keys: Sequence[str] | str | None, more: Sequence[str] = ()
    ) -> None:
        keys_of_pool = [*state_keys(spec), *more]
        places = {key.replace(":", "."): place for place, key in enumerate(keys_of_pool)}
        self.done_place, self.trunc_place = places["done"], places["trunc"]
        self.reward_place, self.id_place = places["reward"], places["info.env_id"]
        self.reward_places = [self.reward_place, *(places[key.replace(":", ".")] for key in more)]
        obs = {key: place for key, place in places.items() if key.split(".")[0] == "obs"}
        info = _choose_infos(places, info_keys)
        self.obs_places = [*obs.values()]
        # What a restart changes, besides flags and reward:
        self.restarted_places = [*self.obs_places, *info.values()]
        is_dict = isinstance(spec.gymnasium_observation_space, spaces.Dict)
        # A lone observation is bare, however deep it lies.
        self._obs_tree = _nest(obs) if is_dict else {"obs": self.obs_places[0]}
        arrays = spec.state_array_spec
        self._bits = [p for p in self.obs_places if arrays[keys_of_pool[p]].dtype == np.bool_]
        is_plain = not (is_dict or self._bits)
        self.read_obs = itemgetter(self.obs_places[0]) if is_plain else self._read_obs
        self.read_info: Callable[[Values], dict[str, Any]] = partial(_take, _nest(info))
        paths = [tuple(key.split(".")) for key in action_keys(spec) if key not in _IDS]
        # The only leaf of an action is the action itself.
        self._action_paths = paths if len(paths) > 1 else [()]

    def read(self, values: Values, flags: Flags | None = None) -> TimeStep:
        """Return a pool's answers as a time step, with the task's own flags or with others."""
        flags = flags or split_done(values[self.done_place], values[self.trunc_place])
        rewards = values[self.reward_place]
        return TimeStep(self.read_obs(values), rewards, *flags, self.read_info(values))

    def _read_obs(self, values: Values) -> Any:
        """Return the observations; bools become `MultiBinary`'s."""
        if self._bits:
            values = values.copy()
            for place in self._bits:
                values[place] = values[place].view(np.int8)
        return _take(self._obs_tree, values)["obs"]

    def action_leaves(self, actions: Any) -> list[np.ndarray]:
        """Return a batch of actions as a pool takes them, one array for each leaf."""
        return [_to_pool(reduce(getitem, path, actions)) for path in self._action_paths]


def copy_places(values: Values, places: list[int]) -> Values:
    """Return the list with the arrays at some places copied and the others shared."""
    kept = values.copy()
    for place in places:
        kept[place] = values[place].copy()
    return kept


def to_space(space: Any) -> Space[Any]:
    """Return a space of EnvPool with the dtypes of the pool's arrays and no environment ids."""
    if isinstance(space, spaces.Dict):
        kept = {key: sub for key, sub in space.spaces.items() if key not in ("env_id", "players")}
        return spaces.Dict({key: to_space(sub) for key, sub in kept.items()})
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n), start=int(space.start), dtype=np.int32)
    if isinstance(space, spaces.Box) and space.dtype.kind == "f":
        limits = np.finfo(space.dtype)
        # C++ `numeric_limits<T>::min()` is the smallest positive number, not the lowest one.
        if (space.low == limits.tiny).all() and (space.high == limits.max).all():
            return spaces.Box(-np.inf, np.inf, space.shape, space.dtype.type)
    return space


def _to_pool(array: np.ndarray) -> np.ndarray:
    """Return the array as a pool takes it: contiguous, and writable although it only reads."""
    array = np.ascontiguousarray(array)
    return array if array.flags.writeable else array.copy()


def _choose_infos(places: dict[str, int], info_keys: Sequence[str] | str | None) -> dict[str, int]:
    found = {key.removeprefix("info."): places[key] for key in places if key.startswith("info.")}
    found["elapsed_step"] = places["elapsed_step"]
    names = read_info_keys(info_keys, found)
    if names is None:
        names = found.keys() - {*_IDS, "ram"}  # which is large
    return {name: place for name, place in found.items() if name in names}


def _nest(places: dict[str, int]) -> dict[str, Any]:
    """Return the places as a tree by the parts of their names."""
    tree: dict[str, Any] = {}
    for name, place in places.items():
        *levels, last = name.split(".")
        branch = tree
        for level in levels:
            branch = branch.setdefault(level, {})
        branch[last] = place
    return tree


def _take(tree: dict[str, Any], values: Values) -> dict[str, Any]:
    return {
        key: _take(branch, values) if isinstance(branch, dict) else values[branch]
        for key, branch in tree.items()
    }
