"""Who keeps the time limit of an EnvPool task, by family: this package or the pool.

EnvPool calls an end on the very last allowed step a truncation even where the task terminated
(envpool/core/env.h: ``trunc = done && current_step >= max_episode_steps``). A limit beyond the
pool's reach shows the truth, and the core counts the steps. Where the limit changes the task itself
the pool gets the user's, and reports such ties in its way. The core counts in either case, so a
limit holds also for tasks that ignore it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gymbridge.backends.envpool_tasks import load_tasks

__all__ = ["LIMIT_RULES", "LimitRule", "default_limit", "limit_rule"]

_BEYOND_REACH = 2**31 - 2
"""The largest limit to which a pool can add one."""


class LimitRule(NamedTuple):
    """How the limit of a family is kept.

    Attributes:
        keeper: "core", "pool" or "task", as the documentation's table has it.
        keywords: (limit or None for none, the user's keywords) -> keywords for the pool; asked
            only where `applies_by_default` or the user gave a limit.
        applies_by_default: Whether the pool gets the keywords also for the task's own limit.
        owns: Keywords that the user cannot give, since the rule sets them.
    """

    keeper: str
    keywords: Callable[[int | None, Mapping[str, Any]], dict[str, Any]]
    applies_by_default: bool
    owns: tuple[str, ...] = ()


def _beyond(limit: int | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {"max_episode_steps": _BEYOND_REACH}


def _beyond_doom(limit: int | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    # vizdoom_env.h sets a timeout of (limit + 1) * frame_skip game tics, an int32.
    return {"max_episode_steps": 2**30 // kwargs.get("frame_skip", 4) - 2}


def _beyond_duration(limit: int | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {"duration": 10**6}


def _same(limit: int | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {"max_episode_steps": min(limit or _BEYOND_REACH, _BEYOND_REACH)}


def _one_less(limit: int | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {"max_episode_steps": max(min(limit or _BEYOND_REACH, _BEYOND_REACH) - 1, 1)}


def _nothing(limit: int | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {}


_CORE = LimitRule("core", _beyond, applies_by_default=True)
_POOL = LimitRule("pool", _same, applies_by_default=False)
_TASK = LimitRule("task", _nothing, applies_by_default=False)

LIMIT_RULES: dict[str, LimitRule] = {
    "gfootball": LimitRule("pool", _one_less, applies_by_default=False),  # counts from -1
    "highway": LimitRule("core", _beyond_duration, applies_by_default=True, owns=("duration",)),
    "minigrid": _POOL,  # the reward is 1 - 0.9 * steps / limit
    "procgen": _TASK,  # games end at their own `timeout`
    "vizdoom": LimitRule("core", _beyond_doom, applies_by_default=True),
    "AlohaHandOver-v1": _POOL,  # an observation is steps / limit
    "MuJoCoPlayground/AlohaHandOver-v1": _POOL,
    "LevelBasedForaging-v0": _TASK,  # ends at 100 steps by itself
    "Jumanji/LevelBasedForaging-v0": _TASK,
}
"""The rules that are not the core's, by family or task id; every other task has the core's."""


def limit_rule(task_id: str, family: str) -> LimitRule:
    """Return who keeps the limit of a task."""
    return LIMIT_RULES.get(task_id) or LIMIT_RULES.get(family, _CORE)


def default_limit(task_id: str, declared: int) -> int | None:
    """Return the steps after which a task's own episodes are cut, or None.

    Args:
        task_id: EnvPool's name of the task.
        declared: What EnvPool's spec says, for a task that the shipped list lacks.
    """
    task = load_tasks().get(task_id)
    if task is not None:
        return task["max_episode_steps"]
    return None if declared in (0, 2**31 - 1) else declared
