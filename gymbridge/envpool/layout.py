"""Where a pool's flat list of arrays holds observations, flags and infos, and how it takes actions.

A pool answers with one array per key, such as ``obs:image``, ``info:lives``, ``reward`` or
``done``; a colon or a dot opens a level (envpool/python/data.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import getitem, itemgetter
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from gymbridge.core.episode import TimeStep
from gymbridge.core.info_keys import read_info_keys
from gymbridge.envpool.pool import Values
from gymbridge.envpool.private import action_keys, state_keys

__all__ = ["Layout", "to_space"]

_IDS = ("env_id", "players.env_id")
_EXPENSIVE = ("ram",)


class Layout:
    """The places of one task's arrays.

    Args:
        spec: EnvPool's spec of the task.
        info_keys: None for all infos but row ids and ``ram``, "all", or a list of names.

    Raises:
        ArgumentError: A name that the task does not have.
    """

    def __init__(self, spec: Any, info_keys: Sequence[str] | str | None) -> None:
        keys_of_pool = state_keys(spec)
        keys = [key.replace(":", ".") for key in keys_of_pool]
        places = {key: place for place, key in enumerate(keys)}
        self.done_place, self.trunc_place = places["done"], places["trunc"]
        self.reward_place = places["reward"]
        self.obs_places = [places[key] for key in keys if key.split(".")[0] == "obs"]
        self.info_places = [places[key] for key in _choose_infos(keys, info_keys)]
        # What a restart changes, besides flags and reward:
        self.restarted_places = [*self.obs_places, *self.info_places]
        obs_tree = _nest(keys, self.obs_places)["obs"]
        is_dict = isinstance(spec.gymnasium_observation_space, spaces.Dict)
        while not is_dict and isinstance(obs_tree, dict):
            obs_tree = next(iter(obs_tree.values()))
        bits = {
            place
            for place in self.obs_places
            if spec.state_array_spec[keys_of_pool[place]].dtype == np.bool_
        }
        self.read_obs = _make_reader(obs_tree, bits)
        self.read_info = _make_info_reader(
            {keys[place].removeprefix("info."): place for place in self.info_places}
        )
        self.action_leaves = _make_action_flattener(spec)

    def read(self, values: Values) -> TimeStep:
        """Return a pool's answers as a time step with the task's own flags."""
        done, trunc = values[self.done_place], values[self.trunc_place]
        return TimeStep(
            self.read_obs(values),
            values[self.reward_place],
            done & ~trunc,
            done & trunc,
            self.read_info(values),
        )

    def copy_obs(self, values: Values) -> Values:
        """Return the same arrays but for observations, which are copied."""
        kept = values.copy()
        for place in self.obs_places:
            kept[place] = values[place].copy()
        return kept


def to_space(space: Any) -> Space[Any]:
    """Return one of EnvPool's spaces with the dtype of the pool's arrays and without row ids."""
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


def _make_action_flattener(spec: Any) -> Callable[[Any], list[np.ndarray]]:
    """Return the function from actions to their arrays in the pool's order, each contiguous."""
    paths = [tuple(key.split(".")) for key in action_keys(spec) if key not in _IDS]
    if len(paths) == 1:
        return lambda actions: [_to_pool(actions)]

    def flatten(actions: Any) -> list[np.ndarray]:
        return [_to_pool(reduce(getitem, path, actions)) for path in paths]

    return flatten


def _to_pool(array: np.ndarray) -> np.ndarray:
    """Return the array as a pool takes it: contiguous, and writable although it only reads."""
    array = np.ascontiguousarray(array)
    return array if array.flags.writeable else array.copy()


def _choose_infos(keys: list[str], info_keys: Sequence[str] | str | None) -> list[str]:
    """Return the keys of the infos that are carried."""
    found = {key.removeprefix("info."): key for key in keys if key.startswith("info.")}
    found["elapsed_step"] = "elapsed_step"
    names = read_info_keys(info_keys, found)
    if names is None:
        names = found.keys() - {*_IDS, *_EXPENSIVE}
    return [key for name, key in found.items() if name in names]


def _nest(keys: list[str], places: list[int]) -> dict[str, Any]:
    """Return the places as a tree by the parts of their keys."""
    tree: dict[str, Any] = {}
    for place in places:
        *levels, last = keys[place].split(".")
        branch = tree
        for level in levels:
            branch = branch.setdefault(level, {})
        branch[last] = place
    return tree


def _make_reader(tree: Any, bits: set[int]) -> Callable[[Values], Any]:
    """Return the function from a pool's arrays to a tree of them; bools become `MultiBinary`'s."""
    if isinstance(tree, dict):
        readers = {key: _make_reader(branch, bits) for key, branch in tree.items()}
        return lambda values: {key: reader(values) for key, reader in readers.items()}
    if tree in bits:
        return lambda values: values[tree].view(np.int8)
    return itemgetter(tree)


def _make_info_reader(places: dict[str, int]) -> Callable[[Values], dict[str, Any]]:
    if all("." not in name for name in places):
        pairs = tuple(places.items())
        return lambda values: {name: values[place] for name, place in pairs}
    names = [f"info.{name}" for name in places]
    order = list(places.values())
    tree = _nest(names, list(range(len(names))))["info"]
    read = _make_reader(tree, set())
    return lambda values: read([values[place] for place in order])
