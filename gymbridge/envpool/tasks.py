"""Facts about EnvPool's tasks, which can be read without importing the engine.

`tasks.json` beside this module holds for each task id of the newest EnvPool that we know the
package it comes from, the steps after which a pool with default options truncates, the number of
players, and the first version that has it. `newer.py` adds what a newer installed version has.
Below are the rules for the time limit and for threads.

EnvPool reports an end on the last allowed step as a truncation even where the task terminated
(envpool/core/env.h: ``trunc = done && current_step >= max_episode_steps``). Therefore most pools
get a limit that no episode reaches, and the core counts the steps. Where the limit changes the task
itself, the pool gets the user's limit, and reports such an end as a truncation. The core counts in
either case, so a limit also holds for tasks that ignore it.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NotRequired, TypedDict

from gymbridge.core.extras import find_version
from gymbridge.core.requests import read_limit
from gymbridge.envpool.newer import list_tasks

__all__ = [
    "LIMIT_KEEPERS",
    "NO_LIMIT",
    "UNDRAWN_FAMILIES",
    "Task",
    "choose_threads",
    "default_limit",
    "derives_limit",
    "is_newer",
    "limit_enforced_by",
    "limit_keywords",
    "load_tasks",
]

NO_LIMIT = 2**31 - 1
"""EnvPool's default for `max_episode_steps`."""

UNDRAWN_FAMILIES = ("gfootball", "toy_text")
"""Families whose `render` is not implemented in envpool 1.2.5; pools of all others draw."""


class Task(TypedDict):
    """What is known about a task before its engine is imported.

    Attributes:
        family: Package below ``envpool`` that holds the task, such as ``atari`` or ``mujoco.gym``.
        max_episode_steps: Steps after which a pool with default options truncates; None if it
            never does, or if every episode draws its own number (nine of the BabyAI levels).
        max_num_players: 1, or how many players share an environment.
        since: The first version that has the task, if that is newer than 1.2.5.
    """

    family: str
    max_episode_steps: int | None
    max_num_players: int
    since: NotRequired[str]


def is_newer(version: str, than: str) -> bool:
    """Return whether a version of EnvPool is newer than another.

    Example:
        >>> is_newer("1.2.10", "1.2.7")
        True
    """
    first, second = ([int(part) for part in re.findall(r"\d+", name)] for name in (version, than))
    return first > second


@functools.cache
def load_tasks() -> Mapping[str, Task]:
    """Return the facts about every EnvPool task by task id, sorted.

    They are the tasks of the newest version that we know, whichever is installed, and those that
    only a newer installed version has.

    Example:
        >>> load_tasks()["CartPole-v1"]
        {'family': 'classic_control', 'max_episode_steps': 500, 'max_num_players': 1}
    """
    shipped = json.loads(Path(__file__).with_name("tasks.json").read_text(encoding="utf-8"))
    tasks = shipped["tasks"]
    version = find_version("envpool")
    if version is not None and is_newer(version, shipped["envpool"]):
        tasks = dict(sorted({**list_tasks(version), **tasks}.items()))
    return MappingProxyType(tasks)


_BEYOND_REACH = 2**31 - 2
"""The largest limit to which a pool can add one."""


LIMIT_KEEPERS = {
    "gfootball": "pool",
    "marlgrid": "pool",  # Its rewards fall with steps / limit.
    "minigrid": "pool",  # The reward is 1 - 0.9 * steps / limit.
    "procgen": "task",  # Games end at their own `timeout`.
    "AlohaHandOver-v1": "pool",  # One of its observations is steps / limit.
    "LevelBasedForaging-v0": "task",  # Its episodes end at 100 steps by themselves.
}
"""Where the limit is enforced, "pool" or "task", by family or by task id without its prefix, as in
the table of docs/reference/envpool.md. The core enforces the limit of every other task."""


def limit_enforced_by(task_id: str, family: str) -> str:
    """Return where the time limit of a task is enforced: "core", "pool" or "task"."""
    return LIMIT_KEEPERS.get(task_id.rpartition("/")[2]) or LIMIT_KEEPERS.get(family, "core")


def limit_keywords(
    task_id: str, family: str, max_episode_steps: int | None, kwargs: Mapping[str, Any]
) -> dict[str, int]:
    """Return the keywords for the limit that a pool needs, wherever the limit is enforced.

    `max_episode_steps` is the user's, None for the task's own and -1 for none, and so are `kwargs`.
    A pool whose limit the core enforces needs keywords for the task's own limit as well.
    """
    keeper, limit = limit_enforced_by(task_id, family), read_limit(max_episode_steps, None)
    if keeper == "task" or (keeper == "pool" and max_episode_steps is None):
        return {}
    if keeper == "pool":
        steps = min(limit or _BEYOND_REACH, _BEYOND_REACH)
        # gfootball counts from -1.
        return {"max_episode_steps": max(steps - 1, 1) if family == "gfootball" else steps}
    if family == "highway":
        return {"duration": 10**6}
    if family == "vizdoom":  # It sets a timeout of (limit + 1) * frame_skip game tics, an int32.
        return {"max_episode_steps": 2**30 // kwargs.get("frame_skip", 4) - 2}
    return {"max_episode_steps": _BEYOND_REACH}


_SAME_LEVEL = {"base_path", "mission_bytes", "num_threads"}
"""Keywords that leave the limit of a BabyAI level as it is."""


def derives_limit(task_id: str) -> bool:
    """Return whether a task computes its limit from its keywords, as the BabyAI levels do."""
    return task_id.rpartition("/")[2].startswith("BabyAI-")


def default_limit(task_id: str, declared: int, kwargs: Mapping[str, Any]) -> int | None:
    """Return the steps after which a task's own episodes are cut, or None.

    `declared` is what EnvPool's spec says, for a task that the shipped list lacks. `kwargs` are the
    user's keywords. With those of its rooms, a BabyAI level has a limit that only its pool knows.
    """
    if derives_limit(task_id) and kwargs.keys() - _SAME_LEVEL:
        return None
    task = load_tasks().get(task_id)
    if task is not None:
        return task["max_episode_steps"]
    return None if declared in (0, NO_LIMIT) else declared


_CHEAP_FAMILIES = ("classic_control", "toy_text")
_SMALL_BATCH = 64


def choose_threads(family: str, num_envs: int) -> int:
    """Return the default `num_threads`: 1 where that is quicker, or 0 for EnvPool's own choice.

    In small batches of a cheap family, a step can cost less than waking a second worker.
    docs/reference/benchmarks/engine.md has the measurement.
    """
    return 1 if family in _CHEAP_FAMILIES and num_envs <= _SMALL_BATCH else 0
