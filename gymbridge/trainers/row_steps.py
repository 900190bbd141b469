"""A step of any SAME_STEP batch, told row by row: what each environment would say of it itself."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from gymbridge.infos import split_rows
from gymbridge.trainers.info_rows import split_info, split_infos, take_infos
from gymbridge.trainers.needs import check_final_obs
from gymbridge.vector_env import BridgeVectorEnv

__all__ = ["RowStep", "make_row_step"]


Infos = list[dict[str, Any]]

Ended = tuple[list[int], list[Any], Infos]
"""Episodes that a step ended, and those that it began in their place.

    ids         (count,) their environments
    last        (count,) their last observations
    begun       (count,) the infos with which the new ones began
"""

Rows = tuple[Any, np.ndarray, np.ndarray, np.ndarray, np.ndarray, Infos, Ended | None]
"""A step; all of it is the caller's own. Plain tuples, which cost least in every step.

    obs             (num_envs, ...), of the new episode where one ended
    rewards         (num_envs,) float
    terminations    (num_envs,) bool
    truncations     (num_envs,) bool
    dones           (num_envs,) bool, either
    infos           (num_envs,) of the step itself, the ended episode's where one ended
    ended           None if none ended
"""

RowStep = Callable[[Any], Rows]
"""From actions, (num_envs, ...), to the step."""


def make_row_step(name: str, envs: VectorEnv[Any, Any, Any]) -> RowStep:
    """Return the step of a SAME_STEP batch; of ours without infos that are made to be taken apart.

    Args:
        name: Of the argument that the batch was, for errors.
        envs: The batch, with wrappers or without.

    Raises:
        EnvContractError: By the step, if it ended episodes and does not show how.
    """
    # A subclass may have a step of its own.
    is_ours = isinstance(envs, BridgeVectorEnv) and type(envs).step is BridgeVectorEnv.step
    return _make_own_step(envs) if is_ours else _make_any_step(name, envs)


def _make_own_step(envs: Any) -> RowStep:
    step_ticks, num_envs = envs.step_ticks, envs.num_envs

    def step(actions: Any) -> Rows:
        tick, dones, final = step_ticks(actions)
        obs, rewards, terminations, truncations, info = tick
        if final is None:
            rows, ended = split_info(info, num_envs), None
        else:
            ids = dones.nonzero()[0]
            rows = split_info(final.info, num_envs)
            begun = split_info(take_infos(info, ids), len(ids))
            ended = ids.tolist(), split_rows(final.obs, ids), begun
        return obs, rewards, terminations, truncations, dones, rows, ended

    return step


def _make_any_step(name: str, envs: VectorEnv[Any, Any, Any]) -> RowStep:
    def step(actions: Any) -> Rows:
        obs, rewards, terminations, truncations, infos = envs.step(actions)
        dones = np.logical_or(terminations, truncations)
        rows = split_infos(infos, envs.num_envs)
        ids = dones.nonzero()[0]
        ended = None
        if len(ids):
            check_final_obs(name, infos, ids)
            last = [deepcopy(_take_row(infos["final_obs"], index)) for index in ids.tolist()]
            ended = ids.tolist(), last, _swap_ended(rows, infos, ids)
        owned = deepcopy(obs), np.array(rewards), np.array(terminations), np.array(truncations)
        return *owned, dones, rows, ended

    return step


def _swap_ended(rows: Infos, infos: dict[str, Any], ids: np.ndarray) -> Infos:
    """Put the last infos of ended episodes into `rows`; return those of the new ones."""
    begun = []
    finals = split_infos(take_infos(infos.get("final_info", {}), ids), len(ids))
    for index, final in zip(ids.tolist(), finals, strict=True):
        if "episode" in rows[index]:  # where Gymnasium's RecordEpisodeStatistics puts it
            final["episode"] = rows[index].pop("episode")
        begun.append(rows[index])
        rows[index] = final
    return begun


def _take_row(batch: Any, index: int) -> Any:
    return (
        {key: value[index] for key, value in batch.items()}
        if isinstance(batch, dict)
        else batch[index]
    )
