"""Time steps laid out as Gymnasium's vector infos.

Each key ``k`` has a mask ``_k``, (num_envs,) bool, of the environments that have the value, also in
nested dicts. The layout is that of `gymnasium.vector.VectorEnv._add_info`.

With numpy arrays the keys are those of `SyncVectorEnv`: some are there only in a step that ended an
episode, for which values are read on the host. With torch and jax arrays nothing is read, and the
keys are the same in every step.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from gymbridge.core.arrays.adapter import ArrayAdapter, Converter, copy_array, identity, map_arrays
from gymbridge.core.episode import STEP_INFOS, StepResult, TimeStep
from gymbridge.core.rows import Tree, has_rows, to_objects

__all__ = [
    "RESERVED_INFOS",
    "DenseInfos",
    "InfoLayout",
    "Returned",
    "SparseInfos",
    "make_final_infos",
    "make_info_layout",
    "make_infos",
    "mask_info",
]

Step = tuple[Any, Any, Any, Any, dict[str, Any]]

RESERVED_INFOS = frozenset({"episode", "final_info", "final_obs", *STEP_INFOS})
"""Names of infos that Gymnasium or the batch adds."""


class InfoLayout(Protocol):
    """How the infos of a batch are laid out for its user, in two parts."""

    def collect_infos(self, outcome: StepResult) -> Any:
        """Return what can be done on the simulator's arrays; a runner may compile it."""
        ...

    def to_gymnasium(self, returned: Any) -> Step:
        """Return the values of `step` from `collect_infos`; `reset` uses the first and the last."""
        ...


def make_info_layout(adapter: ArrayAdapter, num_envs: int, *, has_final: bool) -> InfoLayout:
    """Return the layout for a kind of arrays; `has_final` says that steps restart what they end."""
    if adapter.arrays == "numpy":
        return SparseInfos(adapter, num_envs)
    return DenseInfos(adapter, has_final=has_final)


class SparseInfos:
    """`SyncVectorEnv`'s layout, made of numpy arrays after the step."""

    def __init__(self, adapter: ArrayAdapter, num_envs: int) -> None:
        self._to_user, self._pack = adapter.to_user, adapter.pack
        self._all = np.ones(num_envs, np.bool_)

    def collect_infos(self, outcome: StepResult) -> StepResult:
        """Return the outcome, whose time steps are observations, rewards, and all else packed."""
        final = outcome.final and self._send(outcome.final)
        return outcome._replace(time_step=self._send(outcome.time_step), final=final)

    def _send(self, time_step: TimeStep) -> Any:
        obs, reward, *others = time_step
        return obs, reward, self._pack(tuple(others))

    def _receive(self, sent: Any) -> TimeStep:
        obs, reward, others = self._to_user(sent)
        return TimeStep(obs, reward, *others)

    def to_gymnasium(self, returned: StepResult) -> Step:
        """Return the values of `step`; ``final_obs`` and others are there if an episode ended."""
        time_step, over, final = self.to_time_steps(returned)
        if returned.shown is None:
            infos = make_infos(time_step.info, self._all)
        else:
            shown = self._to_user(returned.shown)
            infos = make_infos(mask_info(time_step.info, shown), shown)
        if final is not None:
            infos.update(make_final_infos(final, over))
        return *time_step[:4], infos

    def to_time_steps(self, outcome: StepResult) -> tuple[TimeStep, np.ndarray, Any]:
        """Return the time step, the mask of ended rows, and the one before restarts, if any."""
        time_step = self._receive(outcome.time_step)
        over = time_step.terminated | time_step.truncated
        if outcome.final is None or not has_rows(over):
            return time_step, over, None
        return time_step, over, self._receive(outcome.final)


class Returned(NamedTuple):
    """What a call returns, in the runner's arrays."""

    carry: Any
    obs: Any
    reward: Any
    final_obs: Any  # None if no step restarts episodes
    others: Any  # flags and infos, which the adapter may have packed


class DenseInfos:
    """The same keys in every step, with values arranged on the simulator's own arrays.

    With `has_final`, ``final_obs`` and ``final_info`` are those of this step in every row, ended or
    not, so ``final_obs`` is the true next observation without indexing. The masks say which rows
    ended.

    Where nobody can write into arrays, all keys share two masks. Elsewhere each key has a copy,
    which a runner that compiles `collect_infos` writes on the device.
    """

    def __init__(self, adapter: ArrayAdapter, *, has_final: bool) -> None:
        self._to_user, self._copy, self._has_final = adapter.to_user, adapter.copy, has_final
        self._library = adapter.library
        self._pack, self._read = identity, partial(_lay_out, copy_mask=identity)
        if adapter.arrays != "jax":  # Others can be written into.
            copy_mask = adapter.copy if adapter.pack is identity else identity

            def pack(found: Any) -> Any:
                return adapter.pack(_lay_out(found, copy_mask))

            self._pack, self._read = pack, identity

    def collect_infos(self, outcome: StepResult) -> Returned:
        """Return the outcome with its masks, and with copies of what was final."""
        time_step, shown = outcome.time_step, outcome.shown
        info, terminated, truncated = time_step.info, time_step.terminated, time_step.truncated
        over = final_obs = final_info = None
        if shown is not None:
            info, shown = self._blank(info, shown), self._copy(shown)
        else:
            shown = terminated | ~terminated
            if self._has_final:
                final = time_step if outcome.final is None else outcome.final
                final_obs, final_info = map_arrays(self._copy, (final.obs, final.info))
                over = terminated | truncated
        found = terminated, truncated, info, final_info, shown, over
        obs, reward = time_step.obs, time_step.reward
        return Returned(outcome.carry, obs, reward, final_obs, self._pack(found))

    def to_gymnasium(self, returned: Returned) -> Step:
        """Return what `step` does, with a mask beside each key of infos."""
        obs, reward, final_obs, others = self._to_user(tuple(returned[1:]))
        terminated, truncated, infos = self._read(others)
        if final_obs is not None:
            infos["final_obs"] = final_obs
        return obs, reward, terminated, truncated, infos

    def _blank(self, info: Any, mask: Any) -> Any:
        def keep(value: Any) -> Any:
            rows = mask.reshape(mask.shape + (1,) * (value.ndim - 1))
            return self._library.where(rows, value, self._library.zeros_like(value))

        return map_arrays(keep, info)


def _lay_out(found: Any, copy_mask: Converter) -> tuple[Any, Any, dict[str, Any]]:
    """Return the flags, and the infos with a mask beside each key but ``final_obs`` itself.

    `found` has both flags, the infos, those of the time step before restarts or None, the mask of
    rows that have infos, and the mask of rows that ended.
    """
    terminated, truncated, info, final_info, shown, over = found
    infos = make_infos(info, shown, copy_mask)
    if final_info is not None:
        infos["_final_obs"], infos["_final_info"] = copy_mask(over), copy_mask(over)
        infos["final_info"] = make_infos(final_info, over, copy_mask)
    return terminated, truncated, infos


def make_infos(
    info: dict[str, Any], mask: Any, copy_mask: Converter = copy_array
) -> dict[str, Any]:
    """Return `info` with a copy of a mask, (num_envs,) bool, beside each key, under ``_key``."""
    infos: dict[str, Any] = {}
    for key, value in info.items():
        infos[key], infos[f"_{key}"] = value, copy_mask(mask)
        if isinstance(value, dict):
            infos[key] = make_infos(cast("dict[str, Any]", value), mask, copy_mask)
    return infos


def mask_info(info: dict[str, Tree], mask: np.ndarray) -> dict[str, Any]:
    """Return a copy of `info` that is zero in the rows outside `mask`."""

    def blank(value: np.ndarray) -> np.ndarray:
        kept = np.zeros(value.shape, value.dtype)
        kept[mask] = value[mask]
        return kept

    return map_arrays(blank, info)


def make_final_infos(final: TimeStep, over: np.ndarray) -> dict[str, Any]:
    """Return the keys of the episodes that ended in this step.

    `final` is the time step before the restarts, and `over`, (num_envs,) bool, has the rows that
    ended, at least one. The final observations are objects, None elsewhere, and the final infos are
    zero in the other rows.
    """
    return {
        "final_obs": to_objects(final.obs, over),
        "_final_obs": over.copy(),
        "final_info": make_infos(mask_info(final.info, over), over),
        "_final_info": over.copy(),
    }
