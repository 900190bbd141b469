"""Infos of a batch taken apart: one dict per environment.

Gymnasium's have masks, made by `gymnasium.vector.VectorEnv._add_info`: an environment's dict has
the keys whose mask is True for it, and a key without a mask counts for all. Those of a tick have
none.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

__all__ = ["FINAL_KEYS", "split_info", "split_infos", "take_infos"]

FINAL_KEYS = frozenset({"final_obs", "_final_obs", "final_info", "_final_info"})
"""What SAME_STEP adds to the infos of a step in which some environment ended."""


def split_infos(infos: dict[str, Any], num_envs: int) -> list[dict[str, Any]]:
    """Return one fresh dict per environment.

    Args:
        infos: (num_envs, ...) arrays and nested dicts of such, with (num_envs,) bool masks. The
            final keys are left out.
        num_envs: Size of the batch.

    Returns:
        Per environment its values: Python scalars for (num_envs,) arrays, otherwise copies of the
        rows, objects too. Nothing is shared with the infos or between two dicts.
    """
    rows: list[dict[str, Any]] = []
    for key, value in infos.items():
        if key in FINAL_KEYS or _is_mask(key, infos):
            continue
        mask = infos.get(f"_{key}")
        values = _split_value(value, num_envs)
        if mask is not None and b"\x00" in mask.tobytes():
            rows = rows or [{} for _ in values]
            for index in mask.nonzero()[0].tolist():
                rows[index][key] = values[index]
        else:
            rows = _add_column(rows, key, values)
    return rows or [{} for _ in range(num_envs)]


def split_info(info: dict[str, Any], num_envs: int) -> list[dict[str, Any]]:
    """Return what `split_infos` does, for the infos of a tick.

    Args:
        info: Nested dicts of (num_envs, ...) arrays, true of every environment.
        num_envs: Size of the batch.
    """
    rows: list[dict[str, Any]] = []
    for key, value in info.items():
        if isinstance(value, dict):
            values = split_info(value, num_envs)
        else:
            values = value.tolist() if value.ndim == 1 else list(value.copy())
        rows = _add_column(rows, key, values)
    return rows or [{} for _ in range(num_envs)]


def _add_column(rows: list[dict[str, Any]], key: Any, values: list[Any]) -> list[dict[str, Any]]:
    """Return the rows with one more key; an empty list stands for rows without any."""
    if not rows:  # cheaper than filling empty ones
        return [{key: own} for own in values]
    for row, own in zip(rows, values, strict=True):
        row[key] = own
    return rows


def _is_mask(key: Any, infos: dict[Any, Any]) -> bool:
    if not isinstance(key, str) or not key.startswith("_"):
        return False
    return key[1:] in infos or key[1:] in map(str, infos)  # keys may be of any type


def _split_value(value: Any, num_envs: int) -> list[Any]:
    if isinstance(value, dict):
        return split_infos(value, num_envs)
    array = np.asarray(value)
    if array.shape[:1] != (num_envs,):  # true of the batch as a whole
        return [deepcopy(value) for _ in range(num_envs)]
    if array.dtype.kind == "O":
        return [deepcopy(one) for one in array]
    return array.tolist() if array.ndim == 1 else list(array.copy())


def take_infos(infos: dict[str, Any], ids: np.ndarray) -> dict[str, Any]:
    """Return the infos of the environments `ids` alone, as copies.

    Args:
        infos: As in `split_infos`.
        ids: (count,) int.

    Returns:
        The same keys, masks too, with (count, ...) arrays.
    """
    return {
        key: take_infos(value, ids) if isinstance(value, dict) else np.asarray(value).take(ids, 0)
        for key, value in infos.items()
    }
