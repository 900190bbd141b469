"""A step of any SameStep batch as one dict of infos for each environment."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from gymbridge.core.rows import split_info, split_infos, split_rows, take_infos
from gymbridge.core.vector_env import BridgeVectorEnv
from gymbridge.trainers.batches import check_final_obs

__all__ = ["Rows", "step_rows"]

Infos = list[dict[str, Any]]

Ended = tuple[list[int], list[Any], Infos]
"""Episodes that a step ended, and those that it began in their place.

    ids            (count,) their environments
    final_obs      (count,) their final observations
    reset_infos    (count,) the infos with which the new ones began
"""

Rows = tuple[Any, np.ndarray, np.ndarray, np.ndarray, np.ndarray, Infos, Ended | None]
"""The results of a step, which the caller may keep and change.

    observations     (num_envs, ...), of the new episode where one ended
    rewards          (num_envs,) float
    terminations     (num_envs,) bool
    truncations      (num_envs,) bool
    dones            (num_envs,) bool, either
    infos            (num_envs,) of the step itself, the ended episode's where one ended
    ended            see `Ended`; None if no episode ended
"""


def step_rows(name: str, envs: VectorEnv[Any, Any, Any], actions: Any) -> Rows:
    """Take a step of a SameStep batch, the argument `name`; ours without Gymnasium's infos."""
    is_ours = isinstance(envs, BridgeVectorEnv) and type(envs).step is BridgeVectorEnv.step
    if is_ours and "step" not in vars(envs):
        return _step_own(envs, actions)
    return _step_any(name, envs, actions)


def _step_own(envs: Any, actions: Any) -> Rows:
    time_step, dones, final = envs.step_time_steps(actions)
    obs, rewards, terminations, truncations, info = time_step
    if final is None:
        rows, ended = split_info(info, envs.num_envs), None
    else:
        ids = dones.nonzero()[0]
        rows = split_info(final.info, envs.num_envs)
        reset_infos = split_info(take_infos(info, ids), len(ids))
        ended = ids.tolist(), split_rows(final.obs, ids), reset_infos
    return obs, rewards, terminations, truncations, dones, rows, ended


def _step_any(name: str, envs: VectorEnv[Any, Any, Any], actions: Any) -> Rows:
    obs, rewards, terminations, truncations, infos = envs.step(actions)
    dones = np.logical_or(terminations, truncations)
    rows = split_infos(infos, envs.num_envs)
    ids = dones.nonzero()[0]
    ended = None
    if len(ids):
        check_final_obs(name, infos, ids)
        final_obs = split_rows(infos["final_obs"], ids)
        ended = ids.tolist(), final_obs, _swap_ended(rows, infos, ids)
    owned = deepcopy(obs), np.array(rewards), np.array(terminations), np.array(truncations)
    return *owned, dones, rows, ended


def _swap_ended(rows: Infos, infos: dict[str, Any], ids: np.ndarray) -> Infos:
    """Put the final infos of ended episodes into `rows`; return those of the new ones."""
    reset_infos = []
    finals = split_infos(take_infos(infos.get("final_info", {}), ids), len(ids))
    for index, final in zip(ids.tolist(), finals, strict=True):
        # Gymnasium's RecordEpisodeStatistics puts it beside the infos of the new episode.
        if "episode" in rows[index]:
            final["episode"] = rows[index].pop("episode")
        reset_infos.append(rows[index])
        rows[index] = final
    return reset_infos
