"""Ids for `gymnasium.make_vec` and `gymnasium.make`: ``Brax/<name>-v0`` and ``EnvPool/<task id>``.

Both lists ship with the package, so registering imports no engine. A slash inside an EnvPool task
id becomes a dot, since Gymnasium's ids have one namespace.
"""

from __future__ import annotations

from gymnasium.envs.registration import register, registry

from gymbridge.backends.brax_tasks import BRAX_LIMIT, BRAX_NAMES
from gymbridge.backends.envpool_tasks import load_tasks

__all__ = ["brax_id", "envpool_id", "register_all"]


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


def register_all() -> None:
    """Register every id that is not registered yet."""
    for name in BRAX_NAMES:
        _register(brax_id(name), "brax", {"brax_env": name}, BRAX_LIMIT)
    for task_id, task in load_tasks().items():
        _register(envpool_id(task_id), "envpool", {"task_id": task_id}, task["max_episode_steps"])


def _register(env_id: str, engine: str, kwargs: dict[str, str], limit: int | None) -> None:
    if env_id in registry:
        return
    vector_class = {"brax": "BraxVectorEnv", "envpool": "EnvPoolVectorEnv"}[engine]
    register(
        env_id,
        entry_point=f"gymbridge.single_env:make_{engine}",
        vector_entry_point=f"gymbridge.{engine}:{vector_class}",
        max_episode_steps=limit,
        kwargs=kwargs,
    )
