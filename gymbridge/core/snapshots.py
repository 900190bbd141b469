"""Snapshots: the whole state of a batch between two calls, in memory and on disk.

A file is numpy's `.npz` without pickles: the arrays, and a header in JSON. It has a checksum of
each, as every zip archive does, which numpy compares. It is written under another name and then
renamed, so the older file stays whole if the writer is killed.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import uuid
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from gymnasium import spaces

from gymbridge.core.requests import read_seed
from gymbridge.errors import ArgumentError, ArgumentTypeError

__all__ = ["SavesState", "Snapshot", "check_same_batch", "check_snapshot", "describe"]

_HEADER = "header.json"


class Snapshot(NamedTuple):
    """The state of a batch between two calls: `get_state` returns it, `set_state` takes it."""

    batch: Mapping[str, str]  # what a batch that takes the snapshot must be
    seeds: tuple[int, ...]  # given to each environment
    leaves: Mapping[str, Any]  # arrays that lead with num_envs, by dotted path


class SavesState(ABC):
    """An environment whose state can be saved and restored, in memory and on disk."""

    @abstractmethod
    def get_state(self) -> Snapshot:
        """Return the whole state of the batch."""

    @abstractmethod
    def set_state(self, state: Snapshot) -> Any:
        """Restore the batch from a snapshot, and return the current observation."""

    def save_state(self, path: str | os.PathLike[str]) -> None:
        """Write what `get_state` returns to a file, which replaces an older one in one operation.

        Args:
            path: Path of the file, in a folder that exists. The format is numpy's `.npz`, whatever
                the name.

        Raises:
            OSError: The file cannot be written.
            ArgumentError, ResetNeededError: See `get_state`.
        """
        _write(path, self.get_state())

    def load_state(self, path: str | os.PathLike[str]) -> Any:
        """Restore the batch from a file that `save_state` wrote.

        It also works in a new process, and before the first `reset`.

        Args:
            path: Path of the file.

        Returns:
            observations: (num_envs, ...), the current ones.

        Raises:
            OSError: The file cannot be read.
            ArgumentError: The file is truncated, was changed or is not a snapshot, or it is of
                another batch; the message names the difference.
        """
        return self.set_state(_read(Path(path)))


def check_snapshot(state: Any) -> None:
    """Raise `ArgumentTypeError` unless `state` is a `Snapshot`, which users can also make."""
    if not isinstance(state, Snapshot):
        raise ArgumentTypeError(
            f"`state` must be what `get_state` returned, got {type(state).__name__}."
        )
    for name, kind in (("batch", Mapping), ("seeds", tuple), ("leaves", Mapping)):
        if not isinstance(getattr(state, name), kind):
            raise ArgumentTypeError(
                f"`state.{name}` must be what `get_state` returned, a {kind.__name__.lower()}, got "
                f"{type(getattr(state, name)).__name__}."
            )
    for seed in state.seeds:
        if read_seed(seed) is None:
            raise ArgumentTypeError("`state.seeds` must hold ints, got None.")


def check_same_batch(found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raise `ArgumentError` unless what the batch of a snapshot is equals what this one is."""
    odd = [name for name in {**wanted, **found} if found.get(name) != wanted.get(name)]
    if odd:
        there = ", ".join(f"{name}={found.get(name, 'nothing')}" for name in odd)
        here = ", ".join(f"{name}={wanted.get(name, 'nothing')}" for name in odd)
        raise ArgumentError(
            f"`state` must be of a batch like this one, which has {here}; the snapshot's has "
            f"{there}."
        )


def describe(value: Any) -> str:
    """Return an argument as a text that is the same in another process.

    Functions and objects are told apart by name alone.
    """
    if hasattr(value, "to_dict"):  # a configuration
        value = value.to_dict()
    if isinstance(value, np.ndarray):
        shape = cast("np.ndarray", value).shape
        return f"array{list(shape)} {hashlib.sha256(value.tobytes()).hexdigest()[:16]}"
    if isinstance(value, np.generic):
        value = cast("np.generic", value).item()
    if isinstance(value, spaces.Box):  # whose own text follows numpy's print options
        box = cast("Any", value)
        bounds = ", ".join(map(_describe_bound, (box.low, box.high)))
        return f"Box({bounds}, {box.shape}, {box.dtype})"
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        items = sorted((describe(key), describe(entry)) for key, entry in pairs)
        return "{" + ", ".join(map(": ".join, items)) + "}"
    if isinstance(value, set | frozenset | list | tuple):
        parts = list(map(describe, cast("Collection[Any]", value)))
        return f"[{', '.join(sorted(parts) if isinstance(value, set | frozenset) else parts)}]"
    if isinstance(value, functools.partial):
        return f"{describe(value.func)} of {describe(value.args)}, {describe(value.keywords)}"
    if value is None or isinstance(value, bool | int | float | str | spaces.Space):
        return f"{value!r}"
    inner = getattr(value, "__dict__", {}).get("env")  # What a wrapper is around.
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return name if inner is None else f"{name} of {describe(inner)}"


def _describe_bound(bound: np.ndarray) -> str:
    is_uniform = bound.size > 0 and bound.min() == bound.max()
    return f"{bound.flat[0].item()!r}" if is_uniform else describe(bound)


def _write(path: str | os.PathLike[str], snapshot: Snapshot) -> None:
    arrays = [np.asarray(leaf) for leaf in snapshot.leaves.values()]
    header = {
        "batch": dict(snapshot.batch),
        "seeds": [hex(seed) for seed in snapshot.seeds],
        "leaves": [
            {"name": name, "dtype": str(array.dtype), "shape": array.shape}
            for name, array in zip(snapshot.leaves, arrays, strict=True)
        ],
    }
    with _replacing(path) as file:
        np.savez(file, *map(_to_plain, arrays))
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(_HEADER, json.dumps(header))


@contextmanager
def _replacing(path: str | os.PathLike[str]) -> Generator[BinaryIO]:
    """Open a new file, which takes the place and the permissions of an older one in the end."""
    target = Path(os.path.realpath(path))  # A link stays: the file that it points to is replaced.
    beside = target.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with open(beside, "x+b") as file:
            if target.exists():
                shutil.copymode(target, beside)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException as error:
        with suppress(OSError):  # there may be no such file or folder
            beside.unlink()
        if isinstance(error, OSError) and error.errno is not None:
            # It names the file that is renamed.
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise


def _read(path: Path) -> Snapshot:
    with path.open("rb") as file:
        try:
            with np.load(file, allow_pickle=False) as entries:
                header = json.loads(entries[_HEADER])
                leaves = {
                    leaf["name"]: entries[f"arr_{k}"].view(leaf["dtype"]).reshape(leaf["shape"])
                    for k, leaf in enumerate(header["leaves"])
                }
            seeds = tuple(int(seed, 16) for seed in header["seeds"])
            snapshot = Snapshot(header["batch"], seeds, leaves)
            check_snapshot(snapshot)
        except Exception as error:  # A spoilt archive fails in more ways than `zipfile` lists.
            raise ArgumentError(
                f"`path` must be a file that `save_state` wrote, got '{path}', which is truncated, "
                f"was changed or is something else ({type(error).__name__}: {error})."
            ) from error
    return snapshot


def _to_plain(array: np.ndarray) -> np.ndarray:
    """Return an array of numpy's own dtypes; others, such as bfloat16, would need a pickle."""
    is_numpy_s = array.dtype.type.__module__ == "numpy"
    return array if is_numpy_s else array.view(f"u{array.dtype.itemsize}")
