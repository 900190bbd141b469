"""Ticks laid out as Gymnasium's vector infos, exactly as `SyncVectorEnv` gives them.

Each key ``k`` has a mask ``_k`` that tells which environments it is true of; dicts nest, masks and
all. See `gymnasium.vector.VectorEnv._add_info` for the layout's origin.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gymbridge.episode import Tick

__all__ = ["make_final_infos", "make_infos", "mask_info", "take_row"]


def make_infos(info: dict[str, Any], mask: np.ndarray) -> dict[str, Any]:
    """Return `info` with a mask beside each key.

    Args:
        info: Nested dicts of (num_envs, ...) arrays, true of every environment under the mask.
        mask: (num_envs,) bool.

    Returns:
        The same arrays under the same keys, and a fresh copy of the mask under ``_key``.
    """
    infos: dict[str, Any] = {}
    for key, value in info.items():
        infos[key] = make_infos(value, mask) if isinstance(value, dict) else value
        infos[f"_{key}"] = mask.copy()
    return infos


def mask_info(info: dict[str, Any], mask: np.ndarray) -> dict[str, Any]:
    """Return a copy of `info` that is zero in the rows outside `mask`."""
    return _keep_rows(info, mask.nonzero()[0])


def _keep_rows(info: dict[str, Any], ids: np.ndarray) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in info.items():
        if isinstance(value, dict):
            kept[key] = _keep_rows(value, ids)
        else:
            kept[key] = np.zeros(value.shape, value.dtype)
            kept[key][ids] = value.take(ids, 0)
    return kept


def make_final_infos(final: Tick, over: np.ndarray) -> dict[str, Any]:
    """Return the keys that tell of the episodes that ended in this step.

    Args:
        final: The tick before the restarts.
        over: (num_envs,) bool, rows that ended, at least one.

    Returns:
        final_obs: (num_envs,) object, the last observation of each ended row, None elsewhere.
        final_info: The last infos with masks, zero in the other rows.
        _final_obs, _final_info: (num_envs,) bool, `over`.
    """
    ids = over.nonzero()[0]
    final_obs = np.empty(over.shape, dtype=object)  # of None
    for index, row in zip(ids.tolist(), _split_rows(final.obs, ids), strict=True):
        final_obs[index] = row
    return {
        "final_obs": final_obs,
        "_final_obs": over.copy(),
        "final_info": make_infos(_keep_rows(final.info, ids), over),
        "_final_info": over.copy(),
    }


def take_row(batch: Any, index: Any) -> Any:
    """Return row `index` of a batch of arrays or nested dicts of such, as a copy.

    A row without dimensions is an array, as a `Box` holds it, or a numpy integer, as a `Discrete`.
    """
    return _split_rows(batch, np.array([index]))[0]


def _split_rows(batch: Any, ids: np.ndarray) -> list[Any]:
    """Return the rows `ids` of a batch, apart from the batch and from one another."""
    if isinstance(batch, dict):
        columns = [_split_rows(value, ids) for value in batch.values()]
        return [dict(zip(batch, row, strict=True)) for row in zip(*columns, strict=True)]
    rows = batch.take(ids, 0)
    if rows.ndim == 1 and rows.dtype.kind not in "iu":
        return [rows[place, ...] for place in range(len(rows))]
    return list(rows)
