"""The engines, one row each, and their ids for `gymnasium.make_vec` and `gymnasium.make`.

Ids are ``Brax/<name>-v0``, ``Playground/<name>-v0`` and ``EnvPool/<task id>``. The lists ship with
the package, so registering imports no engine. A slash inside an EnvPool task id becomes a dot,
since Gymnasium's ids have one namespace. Tasks that are not supported have no id, and neither have
names without a version where EnvPool also has the name with one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from gymnasium.envs.registration import EnvSpec, registry

from gymbridge.brax.tasks import BRAX_LIMIT, BRAX_NAMES
from gymbridge.envpool.tasks import derives_limit, limit_enforced_by, load_tasks
from gymbridge.playground.tasks import PLAYGROUND_SUITES

__all__ = ["ENGINES", "Engine", "TaskFacts", "envpool_id", "find_engine", "register_all"]


def envpool_id(task_id: str) -> str:
    """Return the Gymnasium id of an EnvPool task.

    Example:
        >>> envpool_id("MetaWorld/DialTurn-v3")
        'EnvPool/MetaWorld.DialTurn-v3'
    """
    return f"EnvPool/{task_id.replace('/', '.')}"


class TaskFacts(NamedTuple):
    """What is known about a task before its engine is imported."""

    family: str | None  # the engine's own folder for it, None where it is not known
    limit: int | None  # in steps with the task's default keywords, None for no limit
    id_limit: int | None  # the id's; None where keywords decide: Gymnasium passes it as the user's


class Engine(NamedTuple):
    """Everything about an engine that is needed outside of its folder.

    What installs its libraries is the extra in `setup.cfg`, which `pip` reads. If `gymbridge`
    itself offers the class, type checkers need its name there, since they run no code.

    vector_entry_point    of batches
    entry_point           of single environments; `gymbridge.single_env` makes the function
    extra                 of gymbridge, which installs the engine
    task_keyword          keyword of a batch that names its task
    make_id               name of a task -> its id
    load_tasks            () -> facts about the tasks that have an id, by name
    keeps_limit           name of a task -> whether single environments have its limit beside the
                          `TimeLimit` of `gymnasium.make`: a limit changes the task itself, or the
                          id has none
    bare_step             by path, (batch, numpy actions) -> the engine's own step, for `bench`
    takes_threads         whether `num_threads=` is a keyword of all of its environments
    """

    vector_entry_point: str
    entry_point: str
    extra: str
    task_keyword: str
    make_id: Callable[[str], str]
    load_tasks: Callable[[], Mapping[str, TaskFacts]]
    keeps_limit: Callable[[str], bool]
    bare_step: str
    takes_threads: bool = False

    def ids(self) -> Iterator[tuple[str, dict[str, Any], int | None]]:
        """Yield each id with its keywords and its time limit."""
        for name, facts in self.load_tasks().items():
            yield self.make_id(name), {self.task_keyword: name}, facts.id_limit

    def find_facts(self, kwargs: Mapping[str, Any]) -> TaskFacts:
        """Return what is known about the task that the keywords of a batch name."""
        unknown = TaskFacts(None, None, None)
        return self.load_tasks().get(str(kwargs.get(self.task_keyword)), unknown)


@cache
def _playground_tasks() -> Mapping[str, TaskFacts]:
    return {
        name: TaskFacts(suite, limit, None)
        for suite, limits in PLAYGROUND_SUITES.items()
        for name, limit in limits.items()  # The limit is that of the user's configuration.
    }


@cache
def _envpool_tasks() -> Mapping[str, TaskFacts]:
    tasks = load_tasks()
    versioned = {found[1] for found in map(re.compile(r"(.+)-v\d+$").match, tasks) if found}
    facts = {}
    for task_id, task in tasks.items():
        # Of a name without a version, Gymnasium takes the newest one that has a version.
        # The players of soccer observe a Dict each, which is not supported.
        is_soccer = task["max_num_players"] > 1 and task["family"] == "mujoco.locomotion"
        if task_id not in versioned and not is_soccer:
            limit = task["max_episode_steps"]
            id_limit = None if derives_limit(task_id) else limit
            facts[task_id] = TaskFacts(task["family"], limit, id_limit)
    return facts


def _pool_keeps_limit(task_id: str) -> bool:
    task = load_tasks().get(task_id)
    return task is not None and limit_enforced_by(task_id, task["family"]) == "pool"


ENGINES = {
    "Brax": Engine(
        vector_entry_point="gymbridge.brax:BraxVectorEnv",
        entry_point="gymbridge.single_env:make_brax",
        extra="brax",
        task_keyword="brax_env",
        make_id="Brax/{}-v0".format,
        load_tasks=lambda: dict.fromkeys(BRAX_NAMES, TaskFacts("brax", BRAX_LIMIT, BRAX_LIMIT)),
        keeps_limit=lambda name: False,
        bare_step="gymbridge.jax_env.bare_step:make_bare_step",
    ),
    "Playground": Engine(
        vector_entry_point="gymbridge.playground:PlaygroundVectorEnv",
        entry_point="gymbridge.single_env:make_playground",
        extra="playground",
        task_keyword="env",
        make_id="Playground/{}-v0".format,
        load_tasks=_playground_tasks,
        keeps_limit=lambda name: True,
        bare_step="gymbridge.jax_env.bare_step:make_bare_step",
    ),
    "EnvPool": Engine(
        vector_entry_point="gymbridge.envpool:EnvPoolVectorEnv",
        entry_point="gymbridge.single_env:make_envpool",
        extra="envpool",
        task_keyword="task_id",
        make_id=envpool_id,
        load_tasks=_envpool_tasks,
        keeps_limit=_pool_keeps_limit,
        bare_step="gymbridge.envpool.bare_step:make_bare_step",
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
