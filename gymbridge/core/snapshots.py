"""Snapshots: all that a batch is between two calls, in memory and on disk.

A file is numpy's `.npz` without pickles: the arrays, and a header in JSON with the SHA-256 of all
else. It is written beside its place and put there at once, so that a writer that is
killed leaves the file that was there before.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from gymbridge.errors import ArgumentError, ArgumentTypeError

__all__ = ["SavesState", "Snapshot", "check_same_batch", "check_snapshot"]

_FORMAT, _HEADER = 1, "header.json"


class Snapshot(NamedTuple):
    """All that a batch is between two calls, as `get_state` returns it and `set_state` takes it."""

    batch: Mapping[str, str]  # what it is: a batch that takes the snapshot has to be the same
    seeds: tuple[int, ...]  # given to each environment
    leaves: Mapping[str, Any]  # arrays that lead with num_envs, by dotted path


class SavesState(ABC):
    """An environment whose state can be taken, put back, and kept on disk."""

    @abstractmethod
    def get_state(self) -> Snapshot:
        """Return all that the batch is."""

    @abstractmethod
    def set_state(self, state: Snapshot) -> Any:
        """Put the batch back to a snapshot, and return the current observation."""

    def save_state(self, path: str | os.PathLike[str]) -> None:
        """Write what `get_state` returns to a file, which takes the place of an older one at once.

        Args:
            path: Of the file, in a folder that exists; it is numpy's `.npz`, whatever its name.

        Raises:
            OSError: The file cannot be written.
            ArgumentError, ResetNeededError: See `get_state`.
        """
        _write(Path(path), self.get_state())

    def load_state(self, path: str | os.PathLike[str]) -> Any:
        """Go on from a file that `save_state` wrote, also in a new process, and before `reset`.

        Args:
            path: Of the file.

        Returns:
            observations: (num_envs, ...), the current ones.

        Raises:
            OSError: The file cannot be read.
            ArgumentError: It is truncated, was changed, is no snapshot, or one of another batch;
                the message names the difference.
        """
        return self.set_state(_read(Path(path)))


def check_snapshot(state: Any) -> None:
    """Raise `ArgumentTypeError` unless `state` is a `Snapshot`."""
    if not isinstance(state, Snapshot):
        raise ArgumentTypeError(
            f"`state` must be what `get_state` returned, got {type(state).__name__}."
        )


def check_same_batch(found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raise `ArgumentError` unless a snapshot is of a batch like this one.

    Args:
        found: What the batch of the snapshot is.
        wanted: What this one is.
    """
    odd = [name for name in {**wanted, **found} if found.get(name) != wanted.get(name)]
    if odd:
        there = ", ".join(f"{name}={found.get(name, 'nothing')}" for name in odd)
        here = ", ".join(f"{name}={wanted.get(name, 'nothing')}" for name in odd)
        raise ArgumentError(
            f"`state` must be of a batch like this one, which has {here}; it is of one with "
            f"{there}."
        )


def _write(path: Path, snapshot: Snapshot) -> None:
    arrays = [np.asarray(leaf) for leaf in snapshot.leaves.values()]
    header: dict[str, Any] = {
        "format": _FORMAT,
        "batch": dict(snapshot.batch),
        "seeds": [int(seed) for seed in snapshot.seeds],
        "leaves": [
            {"name": name, "dtype": str(array.dtype), "shape": array.shape}
            for name, array in zip(snapshot.leaves, arrays, strict=True)
        ],
    }
    plain = [np.ascontiguousarray(_to_plain(array)) for array in arrays]
    beside: dict[str, Any] = {"dir": path.parent, "prefix": f".{path.name}.", "delete": False}
    with tempfile.NamedTemporaryFile(**beside) as file, _Digest(header) as digest:
        try:
            for array in plain:
                digest.add(array)
            np.savez(file, *plain)
            with zipfile.ZipFile(file, "a") as archive:
                archive.writestr(_HEADER, json.dumps({**header, "sha256": digest.take()}))
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _read(path: Path) -> Snapshot:
    with path.open("rb") as file:
        try:
            with np.load(file, allow_pickle=False) as entries:
                header = json.loads(entries[_HEADER])
                sha256 = header.pop("sha256")
                with _Digest(header) as digest:
                    arrays = [digest.add(entries[f"arr_{i}"]) for i in range(len(header["leaves"]))]
                    is_whole = digest.take() == sha256
                leaves = dict(map(_to_leaf, header["leaves"], arrays))
        except Exception as error:  # a spoilt archive fails in more ways than `zipfile` lists
            raise ArgumentError(
                f"`path` must be a file that `save_state` wrote, got '{path}', which is truncated "
                f"or something else ({type(error).__name__}: {error})."
            ) from error
    if not is_whole:
        raise ArgumentError(
            f"`path` must be a file as `save_state` wrote it, got '{path}', whose contents were "
            "changed: they do not have the SHA-256 in its header."
        )
    if header["format"] != _FORMAT:
        raise ArgumentError(
            f"`path` must be a snapshot of format {_FORMAT}, got '{path}' of {header['format']}; "
            "load it with the version of gymbridge that wrote it."
        )
    return Snapshot(header["batch"], tuple(header["seeds"]), leaves)


def _to_plain(array: np.ndarray) -> np.ndarray:
    """Return an array of numpy's own dtypes; others, such as bfloat16, would need a pickle."""
    return array if array.dtype.kind in "biufc" else array.view(f"u{array.dtype.itemsize}")


def _to_leaf(entry: dict[str, Any], array: np.ndarray) -> tuple[str, np.ndarray]:
    """Return name and value of a leaf, as its entry in the header has them."""
    return entry["name"], array.view(np.dtype(entry["dtype"])).reshape(entry["shape"])


class _Digest:
    """The SHA-256 of a header and arrays, computed in a thread while they are written or read."""

    def __init__(self, header: dict[str, Any]) -> None:
        self._sha256 = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
        self._thread = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()

    def add(self, array: np.ndarray) -> np.ndarray:
        """Go on with an array, and return it."""
        self._thread.submit(self._sha256.update, array.reshape(-1).view(np.uint8).data)
        return array

    def take(self) -> str:
        """Return the digest of all that came before."""
        self._thread.shutdown()
        return self._sha256.hexdigest()
