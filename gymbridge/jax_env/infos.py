"""Which parts of an `EngineEnv`'s state reach the user as infos, and under which names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax

from gymbridge.core.infos import RESERVED_INFOS
from gymbridge.core.requests import read_info_keys
from gymbridge.errors import ArgumentError, nearest
from gymbridge.jax_env.tracing import KEY, is_key

__all__ = ["is_carriable", "make_info_selector"]

_BYTES_PER_ENV = 1024
_RESERVED = {*RESERVED_INFOS, "info", "randomization"}

_SOURCES = ("metrics", "info")

Path = tuple[str, ...]


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
    leaves = {path: leaf for path, leaf in _flatten(state).items() if not _holds_key(leaf)}
    names = {path[:2] for path in leaves}
    places = {path: _find_place(path, names) for path in leaves}
    shown = _choose(leaves, info_keys) | _choose_carried(places, carried)
    chosen = {path: place for path, place in places.items() if path in shown}

    def select(batched: Any) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        found = _flatten(batched)
        # An entry that `step` lacks is found when its state is compared with that of `reset`.
        for path, (*parents, name) in chosen.items():
            branch = infos
            for part in parents:
                branch = branch.setdefault(part, {})
            branch[name] = found.get(path)
        return infos

    return select


def _flatten(state: Any) -> dict[Path, Any]:
    """Return the leaves of metrics and info by path; ("metrics", name) or ("info", name, …)."""
    return {
        (source, *(jax.tree_util.keystr((entry,), simple=True) for entry in path)): leaf
        for source in _SOURCES
        for path, leaf in jax.tree_util.tree_flatten_with_path(getattr(state, source))[0]
    }


def _find_place(path: Path, names: Collection[Path]) -> Path:
    """Return the place of a leaf in the infos; `names` has the first two parts of all paths."""
    source, name = path[:2]
    is_taken = name in _RESERVED or name.startswith("_")
    collides = all((other, name) in names for other in _SOURCES)
    if is_taken and collides and source == "metrics":
        return ("info", *path)
    if is_taken or (collides and source == "info"):
        return ("info", *path[1:])
    return path[1:]


def _choose(leaves: dict[Path, Any], info_keys: Sequence[str] | str | None) -> set[Path]:
    names = read_info_keys(info_keys, {path[1] for path in leaves})
    if names is not None:
        return {path for path in leaves if path[1] in names}
    chosen, spent = set[Path](), 0
    for path, leaf in leaves.items():
        size = leaf.size * leaf.dtype.itemsize
        if spent + size <= _BYTES_PER_ENV:
            chosen.add(path)
            spent += size
    return chosen


def _choose_carried(places: dict[Path, Path], carried: Collection[str]) -> set[Path]:
    own = {path for path, place in places.items() if path == ("info", *place)}
    known = {path[1] for path in own}
    if missing := sorted({*carried} - known):
        raise ArgumentError(
            f"`carried` must name entries of `state.info` that are infos of that name, got "
            f"{missing[0]!r}; {nearest(missing[0], known)}"
        )
    return {path for path in own if path[1] in carried}


def is_carriable(entry: Any) -> bool:
    """Return whether an entry of ``state.info`` is arrays in nested dicts; no PRNG key."""
    if isinstance(entry, Mapping):
        names = [isinstance(name, str) and not name.startswith("_") for name in entry]
        return bool(names) and all(names) and all(map(is_carriable, entry.values()))
    return hasattr(entry, "dtype") and not _holds_key(entry)


def _holds_key(leaf: Any) -> bool:
    """Whether a leaf is a PRNG key: typed, or raw as `jax.random.PRNGKey` makes it."""
    return is_key(leaf) or (leaf.dtype == KEY.dtype and leaf.shape[-1:] == KEY.shape)
