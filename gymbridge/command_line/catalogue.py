"""The ids of every engine, and what is known about them without importing the engine.

`spaces.json` beside this module holds the names of the observation and the action space of each id.
With every engine installed, ``python -m gymbridge.command_line.catalogue`` writes it anew. Ids that
cannot be built there (EnvPool's Procgen needs the system's Qt 5, Playground's robots their meshes)
keep the entry that they have.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium import Space, spaces
from gymnasium.envs.registration import EnvSpec, registry

from gymbridge.command_line.batches import make_batch
from gymbridge.envpool.tasks import load_tasks
from gymbridge.errors import GymbridgeError
from gymbridge.playground.tasks import PLAYGROUND_SUITES
from gymbridge.registration import find_engine

__all__ = [
    "Entry",
    "generate",
    "load_spaces",
    "main",
    "name_space",
    "read_catalogue",
    "read_spaces",
]

_DATA = Path(__file__).with_name("spaces.json")


class Entry(NamedTuple):
    """What is known about an id."""

    id: str
    family: str | None  # the engine's own folder for it
    observation_space: str | None  # of one environment, None where it is not known
    action_space: str | None
    max_episode_steps: int | None  # of the task, None for no limit


def read_catalogue() -> Iterator[Entry]:
    """Yield every id of gymbridge's engines that is registered, in the order of registration."""
    known = load_spaces()
    for env_id, spec in registry.items():
        if find_engine(env_id) is not None:
            observations, actions = known.get(env_id, (None, None))
            yield Entry(env_id, _family(spec), observations, actions, spec.max_episode_steps)


def load_spaces() -> dict[str, list[str]]:
    """Return the names of the observation and the action space by id."""
    return json.loads(_DATA.read_text(encoding="utf-8"))


def _family(spec: EnvSpec) -> str | None:
    name = spec.kwargs.get("task_id") or spec.kwargs.get("env")
    if spec.namespace == "EnvPool":
        task = load_tasks().get(str(name))
        return task["family"] if task else None
    if spec.namespace == "Playground":
        return next((suite for suite, limits in PLAYGROUND_SUITES.items() if name in limits), None)
    return "brax"


def name_space(space: Space[Any]) -> str:
    """Return a short name of a space; that of a `Box` has its lowest and its highest bound.

    Example:
        >>> name_space(spaces.Box(-1, 1, (6,)))
        'Box(-1, 1, (6,), float32)'
        >>> name_space(spaces.Dict(goal=spaces.Discrete(2), place=spaces.Discrete(3, start=-1)))
        'Dict(goal: Discrete(2), place: Discrete(3, start=-1))'
    """
    if isinstance(space, spaces.Dict):
        subs = (f"{key}: {name_space(sub)}" for key, sub in space.spaces.items())
        return f"Dict({', '.join(subs)})"
    if isinstance(space, spaces.Box):
        return f"Box({space.low.min():g}, {space.high.max():g}, {space.shape}, {space.dtype})"
    if isinstance(space, spaces.Discrete):
        return f"Discrete({space.n}{f', start={space.start}' if space.start else ''})"
    return str(space)


def generate() -> str:
    """Return the text of `spaces.json` for the installed engines, one id a line."""
    found = load_spaces() if _DATA.exists() else {}
    for env_id in [env_id for env_id in registry if find_engine(env_id) is not None]:
        try:
            found[env_id] = read_spaces(env_id)
        except (GymbridgeError, gym.error.Error) as error:
            print(f"{env_id} keeps {found.get(env_id)}: {error}", file=sys.stderr)
    lines = (f"{json.dumps(env_id)}: {json.dumps(found[env_id])}" for env_id in sorted(found))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_spaces(env_id: str) -> list[str]:
    """Build an id's environment, and return the names of its two spaces."""
    envs = make_batch(env_id, num_envs=1)
    names = [name_space(envs.single_observation_space), name_space(envs.single_action_space)]
    envs.close()
    return names


def main() -> None:
    """Write `spaces.json` anew."""
    _DATA.write_text(generate(), encoding="utf-8")


if __name__ == "__main__":
    main()
