"""The engines, and their ids for `gymnasium.make_vec` and `gymnasium.make`.

Ids are ``Brax/<name>-v0``, ``Playground/<name>-v0`` and ``EnvPool/<task id>``. The lists ship with
the package, so registering imports no engine. A slash inside an EnvPool task id becomes a dot,
since Gymnasium's ids have one namespace. Tasks with several players have no id, since a batch has
one row per environment. Nor has a name without a version where EnvPool has it with one, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gymnasium.envs.registration import EnvSpec, registry

from gymbridge.brax.tasks import BRAX_LIMIT, BRAX_NAMES
from gymbridge.envpool.tasks import derives_limit, limit_enforced_by, load_tasks
from gymbridge.playground.tasks import PLAYGROUND_LIMITS

__all__ = [
    "ENGINES",
    "Engine",
    "brax_id",
    "envpool_id",
    "find_engine",
    "playground_id",
    "register_all",
]


def brax_id(name: str) -> str:
    """Return the Gymnasium id of a registered Brax environment.

    Example:
        >>> brax_id("ant")
        'Brax/ant-v0'
    """
    return f"Brax/{name}-v0"


def envpool_id(task_id: str) -> str:
    """Return the Gymnasium id of an EnvPool task.

    Example:
        >>> envpool_id("MetaWorld/DialTurn-v3")
        'EnvPool/MetaWorld.DialTurn-v3'
    """
    return f"EnvPool/{task_id.replace('/', '.')}"


def playground_id(name: str) -> str:
    """Return the Gymnasium id of a registered Playground environment.

    Example:
        >>> playground_id("CartpoleBalance")
        'Playground/CartpoleBalance-v0'
    """
    return f"Playground/{name}-v0"


Ids = Iterator[tuple[str, dict[str, Any], int | None]]
"""Ids with their keywords and their time limits in steps; None for no limit, and where the keywords
decide: Gymnasium passes an id's limit on as if it were the user's."""


class Engine(NamedTuple):
    """The ids of one engine, and the entry points that make its environments.

    ids                   () -> ids, with their keywords and limits
    vector_entry_point    of batches
    entry_point           of single environments
    keeps_limit           keywords -> whether single environments have the task's limit beside the
                          `TimeLimit` of `gymnasium.make`: a limit changes the task itself, or the
                          id has none
    takes_threads         whether `num_threads=` is a keyword of all of its environments
    """

    ids: Callable[[], Ids]
    vector_entry_point: str
    entry_point: str
    keeps_limit: Callable[[dict[str, Any]], bool] | None = None
    takes_threads: bool = False


def _brax_ids() -> Ids:
    for name in BRAX_NAMES:
        yield brax_id(name), {"brax_env": name}, BRAX_LIMIT


def _playground_ids() -> Ids:
    for name in PLAYGROUND_LIMITS:  # The limit is that of the user's configuration.
        yield playground_id(name), {"env": name}, None


def _envpool_ids() -> Ids:
    tasks = load_tasks()
    versioned = {found[1] for found in map(re.compile(r"(.+)-v\d+$").match, tasks) if found}
    for task_id, task in tasks.items():
        # Of a name without a version, Gymnasium takes the newest one that has a version.
        if task["max_num_players"] == 1 and task_id not in versioned:
            limit = None if derives_limit(task_id) else task["max_episode_steps"]
            yield envpool_id(task_id), {"task_id": task_id}, limit


def _pool_keeps_limit(kwargs: dict[str, Any]) -> bool:
    task = load_tasks().get(str(kwargs.get("task_id")))
    return task is not None and limit_enforced_by(kwargs["task_id"], task["family"]) == "pool"


ENGINES = {
    "Brax": Engine(
        _brax_ids,
        "gymbridge.brax:BraxVectorEnv",
        "gymbridge.single_env:make_brax",
    ),
    "Playground": Engine(
        _playground_ids,
        "gymbridge.playground:PlaygroundVectorEnv",
        "gymbridge.single_env:make_playground",
        keeps_limit=lambda kwargs: True,
    ),
    "EnvPool": Engine(
        _envpool_ids,
        "gymbridge.envpool:EnvPoolVectorEnv",
        "gymbridge.single_env:make_envpool",
        keeps_limit=_pool_keeps_limit,
        takes_threads=True,
    ),
}
"""Every engine that has ids, by their namespace."""


def find_engine(env_id: str) -> Engine | None:
    """Return the engine of an id; None for other ids.

    Example:
        >>> find_engine("gymbridge:Brax/ant-v0") is find_engine("Brax/ant-v0")
        True
    """
    return ENGINES.get(env_id.rpartition(":")[2].partition("/")[0])


def register_all() -> None:
    """Register every id that is not registered yet.

    The specs go straight into Gymnasium's registry, to save time: for each id, `gymnasium.register`
    would search the whole registry for the same name with or without a version.
    """
    for engine in ENGINES.values():
        for env_id, kwargs, limit in engine.ids():
            if env_id not in registry:
                registry[env_id] = EnvSpec(
                    env_id,
                    entry_point=engine.entry_point,
                    vector_entry_point=engine.vector_entry_point,
                    max_episode_steps=limit,
                    kwargs=kwargs,
                )
