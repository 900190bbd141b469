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
    masked: dict[str, Any] = {}
    for key, value in info.items():
        if isinstance(value, dict):
            masked[key] = mask_info(value, mask)
        else:
            masked[key] = np.zeros_like(value)
            masked[key][mask] = value[mask]
    return masked


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
    final_obs = np.full(over.shape, None, dtype=object)
    for index in np.flatnonzero(over):
        final_obs[index] = take_row(final.obs, index)
    return {
        "final_obs": final_obs,
        "_final_obs": over.copy(),
        "final_info": make_infos(mask_info(final.info, over), over),
        "_final_info": over.copy(),
    }


def take_row(batch: Any, index: Any) -> Any:
    """Return row `index` of a batch of arrays or nested dicts of such, as a copy.

    A row without dimensions is an array, as a `Box` holds it, or a numpy integer, as a `Discrete`.
    """
    if isinstance(batch, dict):
        return {key: take_row(value, index) for key, value in batch.items()}
    row = batch[index, ...].copy()
    return row if row.ndim or row.dtype.kind not in "iu" else row[()]
