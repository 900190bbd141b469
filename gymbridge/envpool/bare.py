"""EnvPool's own ``step``, to compare its speed with that of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import envpool
import numpy as np
from gymnasium.vector import VectorEnv

from gymbridge.envpool.pool import name_task

__all__ = ["make_bare_step"]


def make_bare_step(
    envs: VectorEnv[Any, Any, Any], actions: Sequence[Any]
) -> Callable[[int], np.ndarray]:
    """Return the `step` of a new pool with the threads and the options of a batch.

    The pool has the time limit of the batch, and it restarts episodes as in NEXT_STEP.

    Args:
        envs: An `EnvPoolVectorEnv`, which is not changed.
        actions: numpy actions for the batch; step i takes those at i modulo their number.

    Returns:
        A function of the step's number that returns rewards, (num_envs,).
    """
    batch: Any = envs.unwrapped
    options = batch.get_attr("config")[0]._asdict()
    del options["env_seed"]  # an empty list, which EnvPool itself refuses
    if batch.max_episode_steps is not None:
        options["max_episode_steps"] = batch.max_episode_steps
    task_id = batch.spec.kwargs["task_id"]
    with name_task("build", task_id):
        pool: Any = envpool.make_gymnasium(task_id, **options)
        pool.reset()

    def step(index: int) -> np.ndarray:
        return pool.step(actions[index % len(actions)])[1]

    return step
