"""Ticks laid out as Gymnasium's vector infos.

Each key ``k`` has a mask ``_k`` that tells which environments it is true of; dicts nest, masks and
all. See `gymnasium.vector.VectorEnv._add_info` for the layout's origin. numpy arrays come exactly
as `SyncVectorEnv` gives them, where what is there depends on which episodes ended. For torch and
jax arrays that would mean to read values on the host in every step, so there the keys never change.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gymbridge.arrays import Edge, map_arrays
from gymbridge.episode import Carry, Outcome, Tick

__all__ = [
    "DenseInfos",
    "SparseInfos",
    "make_final_infos",
    "make_infos",
    "mask_info",
    "split_rows",
    "take_row",
]

Shown = tuple[Any, Any, Any, Any, dict[str, Any]]


class SparseInfos:
    """`SyncVectorEnv`'s layout, made of numpy arrays after the step.

    Args:
        edge: The way from the simulator's arrays to numpy.
        num_envs: Size of the batch.
        has_final: Whether steps restart what they end.
    """

    arrange_reset = arrange_step = None
    """Nothing is arranged on the simulator's own arrays."""

    def __init__(self, edge: Edge, num_envs: int, *, has_final: bool) -> None:
        self._fetch = edge.show
        self._all = np.ones(num_envs, np.bool_)

    def show_reset(self, outcome: Outcome, mask: np.ndarray) -> tuple[Any, dict[str, Any]]:
        """Return observations and infos, zero in the rows outside the mask."""
        tick: Tick = self._fetch(outcome.tick)
        info = tick.info if mask.all() else mask_info(tick.info, mask)
        return tick.obs, make_infos(info, mask)

    def show_step(self, outcome: Outcome) -> Shown:
        """Return what `step` does; keys of ended episodes are there if some ended."""
        tick, over, final = self.show_ticks(outcome)
        infos = make_infos(tick.info, self._all)
        if final is not None:
            infos.update(make_final_infos(final, over))
        return *tick[:4], infos

    def show_ticks(self, outcome: Outcome) -> tuple[Tick, np.ndarray, Tick | None]:
        """Return the tick, the rows that ended, and the tick before their restarts, if any."""
        tick: Tick = self._fetch(outcome.tick)
        over = tick.terminated | tick.truncated
        # A scan of bytes costs a tenth of `over.any()`.
        if outcome.final is None or b"\x01" not in over.tobytes():
            return tick, over, None
        return tick, over, self._fetch(outcome.final)


class DenseInfos:
    """The same keys in every step, arranged on the simulator's own arrays.

    With `has_final`, ``final_obs`` and ``final_info`` are this step's own in every row, so that
    ``final_obs`` is the true next observation without indexing; the masks tell which rows ended.

    Args:
        edge: The way from the simulator's arrays to the user's.
        num_envs: Size of the batch.
        has_final: Whether steps restart what they end.
    """

    def __init__(self, edge: Edge, num_envs: int, *, has_final: bool) -> None:
        self._fetch, self._where, self._has_final = edge.show, edge.where, has_final

    def arrange_reset(self, outcome: Outcome, carry: Carry | None, mask: Any, _: Any) -> Outcome:
        """Return the outcome with masks in its infos, zero in the rows outside the mask."""
        info = outcome.tick.info if carry is None else self._blank(outcome.tick.info, mask)
        return outcome._replace(tick=outcome.tick._replace(info=make_infos(info, mask)))

    def arrange_step(self, outcome: Outcome, carry: Carry, actions: Any) -> Outcome:
        """Return the outcome with masks and ended episodes in its infos."""
        tick, final = outcome.tick, outcome.final
        infos = make_infos(tick.info, tick.terminated | ~tick.terminated)
        if self._has_final:
            over = tick.terminated | tick.truncated
            obs, info = (tick.obs, tick.info) if final is None else (final.obs, final.info)
            infos |= {
                "final_obs": map_arrays(_copy, obs),
                "_final_obs": over.copy(),
                "final_info": make_infos(map_arrays(_copy, info), over),
                "_final_info": over.copy(),
            }
        return Outcome(outcome.carry, tick._replace(info=infos), None)

    def show_reset(self, outcome: Outcome, mask: np.ndarray) -> tuple[Any, dict[str, Any]]:
        """Return observations and infos."""
        tick: Tick = self._fetch(outcome.tick)
        return tick.obs, tick.info

    def show_step(self, outcome: Outcome) -> Shown:
        """Return what `step` does."""
        obs, reward, terminated, truncated, infos = self._fetch(outcome.tick)
        return obs, reward, terminated, truncated, infos

    def _blank(self, info: Any, mask: Any) -> Any:
        def keep(value: Any) -> Any:
            rows = mask.reshape(mask.shape + (1,) * (value.ndim - 1))
            return self._where(rows, value, value.dtype.type(0))

        return map_arrays(keep, info)


def _copy(array: Any) -> Any:
    return array.copy()


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
    for index, row in zip(ids.tolist(), split_rows(final.obs, ids), strict=True):
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
    return split_rows(batch, np.array([index]))[0]


def split_rows(batch: Any, ids: np.ndarray) -> list[Any]:
    """Return the rows `ids` of a batch, apart from it and from one another; see `take_row`."""
    if isinstance(batch, dict):
        columns = [split_rows(value, ids) for value in batch.values()]
        return [dict(zip(batch, row, strict=True)) for row in zip(*columns, strict=True)]
    rows = batch.take(ids, 0)
    if rows.ndim == 1 and rows.dtype.kind not in "iu":
        return [rows[place, ...] for place in range(len(rows))]
    return list(rows)
