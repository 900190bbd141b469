"""Which parts of an `EngineEnv`'s state reach the user as infos, and under which names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from gymbridge.core.infos import RESERVED_INFOS
from gymbridge.core.requests import read_info_keys
from gymbridge.errors import ArgumentError, nearest
from gymbridge.jax_env.tracing import KEY, is_key

__all__ = ["is_carriable", "make_info_selector"]

_BYTES_PER_ENV = 1024
_RESERVED = {*RESERVED_INFOS, "info", "randomization"}

_SOURCES = ("metrics", "info")

Path = tuple[str, ...]
Places = dict[Path, tuple[Path, int]]


def make_info_selector(
    state: Any, info_keys: Sequence[str] | str | None, carried: Collection[str] = ()
) -> Callable[[Any], dict[str, Any]]:
    """Return the function from a state to its infos.

    Metrics and entries of ``state.info`` are infos under their own names. The dict ``"info"`` among
    the infos has those whose name Gymnasium or gymbridge uses or that begins with ``_``, and
    entries with the name of a metric. If a metric and an entry have the same reserved name, the
    metric is in the dict ``"metrics"`` inside that dict. PRNG keys are left out.

    `state` is that of one environment, as shapes and dtypes. `info_keys` is None for what fits into
    about 1 kB per environment, "all", or a list of names. `carried` names further entries of
    ``state.info``.
    """
    places = _find_places(state)
    chosen = _choose(places, info_keys) | _choose_carried(places, carried)

    def select(batched: Any) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        found = _flatten(batched)
        # An entry that `step` lacks is found when its state is compared with that of `reset`.
        for source, target in chosen.items():
            branch = infos
            for part in target[:-1]:
                branch = branch.setdefault(part, {})
            branch[target[-1]] = found.get(source)
        return infos

    return select


def _flatten(state: Any) -> dict[Path, Any]:
    """Return the leaves of metrics and info by path; ("metrics", name) or ("info", name, …)."""
    leaves = jax.tree_util.tree_flatten_with_path({"metrics": state.metrics, "info": state.info})[0]
    return {
        tuple(jax.tree_util.keystr((entry,), simple=True) for entry in path): leaf
        for path, leaf in leaves
    }


def _find_places(state: Any) -> Places:
    """Return the place of each leaf in the infos, and its size in bytes."""
    leaves = {path: leaf for path, leaf in _flatten(state).items() if not _holds_key(leaf)}
    names = {source: {path[1] for path in leaves if path[0] == source} for source in _SOURCES}
    places: Places = {}
    for path, leaf in sorted(leaves.items(), key=lambda item: _SOURCES.index(item[0][0])):
        source, name = path[:2]
        is_taken = name in _RESERVED or name.startswith("_")
        collides = all(name in names[other] for other in _SOURCES)
        if is_taken and collides and source == "metrics":
            target = ("info", *path)
        elif is_taken or (collides and source == "info"):
            target = ("info", *path[1:])
        else:
            target = path[1:]
        places[path] = (target, int(np.prod(leaf.shape, dtype=int)) * leaf.dtype.itemsize)
    return places


def _choose(places: Places, info_keys: Sequence[str] | str | None) -> dict[Path, Path]:
    names = read_info_keys(info_keys, {path[1] for path in places})
    if names is not None:
        return {path: target for path, (target, _) in places.items() if path[1] in names}
    chosen, spent = {}, 0
    for path, (target, size) in places.items():
        if spent + size <= _BYTES_PER_ENV:
            chosen[path], spent = target, spent + size
    return chosen


def _choose_carried(places: Places, carried: Collection[str]) -> dict[Path, Path]:
    own = {path: target for path, (target, _) in places.items() if path == ("info", *target)}
    known = {path[1] for path in own}
    if missing := sorted({*carried} - known):
        raise ArgumentError(
            f"`carried` must name entries of `state.info` that are infos of that name, got "
            f"{missing[0]!r}; {nearest(missing[0], known)}"
        )
    return {path: target for path, target in own.items() if path[1] in carried}


def is_carriable(entry: Any) -> bool:
    """Return whether an entry of ``state.info`` is arrays in nested dicts; no PRNG key."""
    if isinstance(entry, Mapping):
        names = [isinstance(name, str) and not name.startswith("_") for name in entry]
        return bool(names) and all(names) and all(map(is_carriable, entry.values()))
    return hasattr(entry, "dtype") and not _holds_key(entry)


def _holds_key(leaf: Any) -> bool:
    """Whether a leaf is a PRNG key: typed, or raw as `jax.random.PRNGKey` makes it."""
    return is_key(leaf) or (leaf.dtype == KEY.dtype and leaf.shape[-1:] == KEY.shape)
