"""EnvPool's own step, with which `gymbridge bench` compares a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import envpool
import numpy as np

from gymbridge.envpool.pool import name_task
from gymbridge.envpool.vector_env import EnvPoolVectorEnv
from gymbridge.private.notices import quiet

__all__ = ["make_bare_step"]


def make_bare_step(envs: EnvPoolVectorEnv, actions: list[Any]) -> Callable[[int], np.ndarray]:
    """Return the `step` of a new pool with the threads, options and time limit of a batch.

    It takes its number, plays `actions` in turn, returns rewards, one for each player of each
    environment, and restarts episodes as in NextStep.
    """
    options = envs.get_attr("config")[0]._asdict()
    del options["env_seed"]  # an empty list, which EnvPool itself refuses
    if envs.max_episode_steps is not None:
        options["max_episode_steps"] = envs.max_episode_steps
    assert envs.spec is not None, "make_vec sets it"
    task_id = envs.spec.kwargs["task_id"]
    if envs.num_players > 1 and not envs.takes_turns:
        actions = [action.reshape(-1, *action.shape[2:]) for action in actions]
    with name_task("build", task_id), quiet():
        pool: Any = envpool.make_gymnasium(task_id, **options)
        pool.reset()
    return lambda index: pool.step(actions[index % len(actions)])[1]
