"""Time steps laid out as Gymnasium's vector infos.

Each key ``k`` has a mask ``_k``, (num_envs,) bool, of the environments that have the value. Nested
dicts have masks, too. The layout is that of `gymnasium.vector.VectorEnv._add_info`.

With numpy arrays the keys are those of `SyncVectorEnv`: some are there only in a step that ended an
episode. To know whether one ended, a step has to read values on the host. So with torch and jax
arrays the keys are the same in every step.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import numpy as np

from gymbridge.core.arrays.adapter import ArrayAdapter, Converter, map_arrays
from gymbridge.core.episode import STEP_INFOS, Final, StepResult, TimeStep
from gymbridge.core.rows import Tree, has_rows, split_rows

__all__ = [
    "RESERVED_INFOS",
    "DenseInfos",
    "InfoLayout",
    "SparseInfos",
    "make_final_infos",
    "make_info_layout",
    "make_infos",
    "mask_info",
]

Step = tuple[Any, Any, Any, Any, dict[str, Any]]

RESERVED_INFOS = frozenset({"episode", "final_info", "final_obs", *STEP_INFOS})
"""Names of infos that Gymnasium or the batch adds."""


def make_info_layout(adapter: ArrayAdapter, num_envs: int, *, has_final: bool) -> InfoLayout:
    """Return the layout for a kind of arrays.

    Args:
        adapter: Converts the simulator's arrays to the user's.
        num_envs: Size of the batch.
        has_final: Whether a step restarts the episodes that it ends.
    """
    if adapter.is_dense:
        return DenseInfos(adapter, has_final=has_final)
    return SparseInfos(adapter, num_envs)


class SparseInfos:
    """`SyncVectorEnv`'s layout, made of numpy arrays after the step.

    Args:
        adapter: Converts the simulator's arrays to numpy's.
        num_envs: Size of the batch.
    """

    def __init__(self, adapter: ArrayAdapter, num_envs: int) -> None:
        self._to_user = adapter.to_user
        self._all = np.ones(num_envs, np.bool_)

    def collect_infos(self, outcome: StepResult) -> StepResult:
        """Return the outcome as it is."""
        return outcome

    def to_gymnasium(self, outcome: StepResult) -> Step:
        """Return the values of `step`; ``final_obs`` and others are there if an episode ended."""
        time_step, over, final = self.to_time_steps(outcome)
        if outcome.shown is None:
            infos = make_infos(time_step.info, self._all)
        else:
            shown = np.asarray(outcome.shown)
            infos = make_infos(mask_info(time_step.info, shown), shown)
        if final is not None:
            infos.update(make_final_infos(final, over))
        return *time_step[:4], infos

    def to_time_steps(self, outcome: StepResult) -> tuple[TimeStep, np.ndarray, TimeStep | None]:
        """Return the time step, the mask of ended rows, and the one before restarts, if any."""
        time_step: TimeStep = self._to_user(outcome.time_step)
        over = time_step.terminated | time_step.truncated
        if outcome.final is None or not has_rows(over):
            return time_step, over, None
        return time_step, over, self._to_user(outcome.final)


class DenseInfos:
    """The same keys in every step, with values arranged on the simulator's own arrays.

    With `has_final`, ``final_obs`` and ``final_info`` are those of this step in every row, ended or
    not, so ``final_obs`` is the true next observation without indexing. The masks say which rows
    ended.

    All masks of a call have one of two values. Only these two are converted to the user's arrays,
    because each conversion takes some microseconds. Each key then gets its mask from them.

    Args:
        adapter: Converts the simulator's arrays to the user's.
        has_final: Whether a step restarts the episodes that it ends.
    """

    def __init__(self, adapter: ArrayAdapter, *, has_final: bool) -> None:
        self._to_user, self._where, self._has_final = adapter.to_user, adapter.where, has_final
        self._copy_mask = adapter.copy_mask

    def collect_infos(self, outcome: StepResult) -> StepResult:
        """Return the outcome with both masks, and with what was final in arrays of its own."""
        time_step, shown = outcome.time_step, outcome.shown
        if shown is not None:
            info = self._blank(time_step.info, shown)
            return outcome._replace(time_step=time_step._replace(info=info), shown=shown.copy())
        outcome = outcome._replace(shown=time_step.terminated | ~time_step.terminated)
        if not self._has_final:
            return outcome
        final = time_step if outcome.final is None else outcome.final
        return outcome._replace(
            final=Final(map_arrays(_copy, final.obs), map_arrays(_copy, final.info)),
            over=time_step.terminated | time_step.truncated,
        )

    def to_gymnasium(self, outcome: StepResult) -> Step:
        """Return what `step` does, with a mask beside each key of infos."""
        _, time_step, final, shown, over = self._to_user(StepResult(None, *outcome[1:]))
        copy_mask = self._copy_mask
        infos = make_infos(time_step.info, shown, copy_mask)
        if final is not None:
            infos["final_obs"], infos["_final_obs"] = final.obs, copy_mask(over)
            infos["final_info"] = make_infos(final.info, over, copy_mask)
            infos["_final_info"] = copy_mask(over)
        return *time_step[:4], infos

    def _blank(self, info: Any, mask: Any) -> Any:
        def keep(value: Any) -> Any:
            rows = mask.reshape(mask.shape + (1,) * (value.ndim - 1))
            return self._where(rows, value, value.dtype.type(0))

        return map_arrays(keep, info)


InfoLayout: TypeAlias = SparseInfos | DenseInfos
"""How the infos of a batch are laid out for its user, in two parts.

`collect_infos` does what can be done on the simulator's arrays, and a runner may compile it.
`to_gymnasium` returns the five values of `step` from what `collect_infos` returned; `reset` uses
the first and the last.
"""


def _copy(array: Any) -> Any:
    return array.copy()


def make_infos(info: dict[str, Any], mask: Any, copy_mask: Converter = _copy) -> dict[str, Any]:
    """Return `info` with a mask beside each key.

    Args:
        info: Nested dicts of (num_envs, ...) arrays.
        mask: (num_envs,) bool, the environments that have the values.
        copy_mask: Function from the mask to the mask of one key, by default a copy.

    Returns:
        The same arrays under the same keys, and the mask of each under ``_key``.
    """
    infos: dict[str, Any] = {}
    for key, value in info.items():
        infos[key], infos[f"_{key}"] = value, copy_mask(mask)
        if isinstance(value, dict):
            infos[key] = make_infos(cast("dict[str, Any]", value), mask, copy_mask)
    return infos


def mask_info(info: dict[str, Tree], mask: np.ndarray) -> dict[str, Any]:
    """Return a copy of `info` that is zero in the rows outside `mask`."""
    kept: dict[str, Any] = {}
    for key, value in info.items():
        if isinstance(value, dict):
            kept[key] = mask_info(value, mask)
        else:
            kept[key] = np.zeros(value.shape, value.dtype)
            kept[key][mask] = value[mask]
    return kept


def make_final_infos(final: TimeStep, over: np.ndarray) -> dict[str, Any]:
    """Return the keys of the episodes that ended in this step.

    Args:
        final: The time step before the restarts.
        over: (num_envs,) bool, rows that ended, at least one.

    Returns:
        final_obs: (num_envs,) object, the final observation of each ended row, None elsewhere.
        final_info: The final infos with masks, zero in the other rows.
        _final_obs, _final_info: (num_envs,) bool, `over`.
    """
    ids = over.nonzero()[0]
    final_obs = np.empty(over.shape, dtype=object)
    for index, row in zip(ids.tolist(), split_rows(final.obs, ids), strict=True):
        final_obs[index] = row
    return {
        "final_obs": final_obs,
        "_final_obs": over.copy(),
        "final_info": make_infos(mask_info(final.info, over), over),
        "_final_info": over.copy(),
    }
