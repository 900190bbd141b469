"""Rows of a batch: observations and infos taken apart, one environment at a time.

Infos in Gymnasium's layout have masks, made by `gymnasium.vector.VectorEnv._add_info`: an
environment's dict has the keys whose mask is True for it, and a key without a mask counts for all.
Infos of a time step have none.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeAlias, cast

import numpy as np

__all__ = [
    "FINAL_KEYS",
    "has_rows",
    "is_mask",
    "split_info",
    "split_infos",
    "split_rows",
    "take_infos",
    "to_objects",
]

FINAL_KEYS = frozenset({"final_obs", "_final_obs", "final_info", "_final_info"})
"""What SameStep adds to the infos of a step in which some environment ended."""

Infos = list[dict[str, Any]]

Tree: TypeAlias = "dict[str, Tree] | np.ndarray"
"""A (num_envs, ...) array, or nested dicts of such."""


def has_rows(mask: np.ndarray) -> bool:
    """Return whether a byte of a mask is not 0; quicker than ``mask.any()``."""
    data = mask.tobytes()
    return data != bytes(len(data))


def split_rows(batch: Tree, ids: np.ndarray) -> list[Any]:
    """Return the rows `ids` of a batch, apart from it and from one another.

    A row without dimensions is an array, as a `Box` holds it, or a numpy integer, as a `Discrete`.
    Objects in an array of objects are copied.
    """
    if isinstance(batch, dict):
        columns = [split_rows(value, ids) for value in batch.values()]
        return [dict(zip(batch, row, strict=True)) for row in zip(*columns, strict=True)]
    rows = batch.take(ids, 0)
    if rows.dtype == object:  # As in Gymnasium's "final_obs".
        return [deepcopy(row) for row in rows]
    if rows.ndim == 1 and rows.dtype.kind not in "iu":
        return [rows[place, ...] for place in range(len(rows))]
    return list(rows)


def to_objects(batch: Tree, mask: np.ndarray) -> np.ndarray:
    """Return the rows of a batch under a mask as objects, (num_envs,), and None elsewhere."""
    rows, ids = np.empty(mask.shape, object), mask.nonzero()[0]
    for index, row in zip(ids.tolist(), split_rows(batch, ids), strict=True):
        rows[index] = row
    return rows


def split_infos(infos: dict[str, Any], num_envs: int, *, keeps_dtypes: bool = False) -> Infos:
    """Return one new dict per environment from infos with masks, without their final keys.

    Values of (num_envs,) arrays are Python's scalars. With `keeps_dtypes` only bools are, since
    `SyncVectorEnv` makes bool arrays of Python's only. Other values are copies of the rows, also of
    objects. Nothing is shared with the infos or between two dicts.
    """
    rows: Infos = []
    for key, value in infos.items():
        if key in FINAL_KEYS or is_mask(key, infos):
            continue
        mask = infos.get(f"_{key}")
        values = _split_value(value, num_envs, keeps_dtypes)
        if mask is not None and has_rows(~mask):
            rows = rows or [{} for _ in values]
            for index in mask.nonzero()[0].tolist():
                rows[index][key] = values[index]
        else:
            rows = _add_column(rows, key, values)
    return rows or [{} for _ in range(num_envs)]


def split_info(info: dict[str, Tree], num_envs: int) -> Infos:
    """Return what `split_infos` does, for the infos of a time step, true of every environment."""
    rows: Infos = []
    for key, value in info.items():
        if isinstance(value, dict):
            values = split_info(value, num_envs)
        else:
            values = value.tolist() if value.ndim == 1 else list(value.copy())
        rows = _add_column(rows, key, values)
    return rows or [{} for _ in range(num_envs)]


def take_infos(infos: dict[str, Tree], ids: np.ndarray) -> dict[str, Any]:
    """Return copies of infos, masks too, of the environments `ids`, (count,) int, alone."""
    return {
        key: take_infos(value, ids) if isinstance(value, dict) else np.asarray(value).take(ids, 0)
        for key, value in infos.items()
    }


def _add_column(rows: Infos, key: Any, values: list[Any]) -> Infos:
    """Return the rows with one more key; an empty list stands for rows without any."""
    if not rows:  # This is quicker than filling empty dicts.
        return [{key: own} for own in values]
    for row, own in zip(rows, values, strict=True):
        row[key] = own
    return rows


def is_mask(key: Any, infos: dict[Any, Any]) -> bool:
    """Return whether a key of infos is the mask of another key."""
    if not isinstance(key, str) or not key.startswith("_"):
        return False
    return key[1:] in infos or key[1:] in map(str, infos)  # Keys may be of any type.


def _split_value(value: Any, num_envs: int, keeps_dtypes: bool) -> list[Any]:
    if isinstance(value, dict):
        return split_infos(cast("dict[str, Any]", value), num_envs, keeps_dtypes=keeps_dtypes)
    array = np.asarray(value)
    if array.shape[:1] != (num_envs,):  # true of the batch as a whole
        return [deepcopy(value) for _ in range(num_envs)]
    if array.dtype.kind == "O":
        return [deepcopy(one) for one in array]
    if array.ndim == 1 and (array.dtype.kind == "b" or not keeps_dtypes):
        return array.tolist()
    return list(array.copy())
