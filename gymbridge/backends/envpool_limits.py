"""Who keeps the time limit of an EnvPool task: this package or the pool.

EnvPool reports an end on the very last allowed step as a truncation even if the task terminated
there. A limit beyond the pool's reach shows the truth, and the core counts the steps. Where the
limit changes the task itself, the pool gets the user's limit and its reports stand.
"""

from __future__ import annotations

from typing import NamedTuple

import envpool
from envpool.registration import registry

__all__ = ["POOL_LIMITED_FAMILIES", "POOL_LIMITED_TASKS", "LimitRule", "limit_rule"]

POOL_LIMITED_FAMILIES = ("minigrid",)
"""Rewards depend on the limit: ``1 - 0.9 * steps / max_steps``."""

POOL_LIMITED_TASKS = ("AlohaHandOver-v1", "MuJoCoPlayground/AlohaHandOver-v1")
"""The first observation depends on the limit."""


class LimitRule(NamedTuple):
    """How the time limit of a task is kept."""

    is_counted_here: bool  # the pool's own limit is put beyond reach
    default: int | None  # steps after which episodes are cut by default


def limit_rule(task_id: str) -> LimitRule:
    """Return the rule for a task of the installed EnvPool."""
    family = registry.specs[task_id][0].removeprefix("envpool.")
    default = envpool.make_spec(task_id).config.max_episode_steps
    counted = family not in POOL_LIMITED_FAMILIES and task_id not in POOL_LIMITED_TASKS
    return LimitRule(counted, None if default in (0, 2**31 - 1) else default)
