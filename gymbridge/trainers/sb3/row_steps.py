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

Rows = tuple[Any, np.ndarray, np.ndarray, np.ndarray, Infos, list[tuple[int, Any, dict[str, Any]]]]
"""The results of a step, which the caller may keep and change.

    observations     (num_envs, ...), of the new episode where one ended
    rewards          (num_envs,) float
    dones            (num_envs,) bool, terminated or truncated
    cut              (num_envs,) bool, truncated and not terminated
    infos            (num_envs,) of the step itself, the ended episode's where one ended
    ended            (count,) of each ended episode the environment, the final observation, and the
                     infos with which the new episode began in its place
"""


def step_rows(envs: VectorEnv[Any, Any, Any], actions: Any) -> Rows:
    """Take a step of a SameStep batch; of ours without Gymnasium's infos."""
    if getattr(envs.step, "__func__", None) is BridgeVectorEnv.step:
        return _step_own(envs, actions)
    return _step_any(envs, actions)


def _step_own(envs: Any, actions: Any) -> Rows:
    (obs, rewards, _, truncations, info), dones, final = envs.step_time_steps(actions)
    if final is None:
        return obs, rewards, dones, truncations, split_info(info, envs.num_envs), []
    ids = dones.nonzero()[0]
    reset_infos = split_info(take_infos(info, ids), len(ids))
    ended = [*zip(ids.tolist(), split_rows(final.obs, ids), reset_infos, strict=True)]
    return obs, rewards, dones, truncations, split_info(final.info, envs.num_envs), ended


def _step_any(envs: VectorEnv[Any, Any, Any], actions: Any) -> Rows:
    obs, rewards, terminations, truncations, infos = envs.step(actions)
    dones = np.logical_or(terminations, truncations)
    cut = np.logical_and(truncations, np.logical_not(terminations))
    rows, ended, ids = split_infos(infos, envs.num_envs), [], dones.nonzero()[0]
    if len(ids):
        check_final_obs("vector_env", infos, ids)
        final_obs = split_rows(infos["final_obs"], ids)
        final_infos = split_infos(take_infos(infos.get("final_info", {}), ids), len(ids))
        for index, last, info in zip(ids.tolist(), final_obs, final_infos, strict=True):
            # Gymnasium's RecordEpisodeStatistics puts it beside the infos of the new episode.
            if "episode" in rows[index]:
                info["episode"] = rows[index].pop("episode")
            ended.append((index, last, rows[index]))
            rows[index] = info
    return deepcopy(obs), np.array(rewards), dones, cut, rows, ended
