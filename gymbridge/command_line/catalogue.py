"""The ids of every engine, and what is known about them without importing the engine.

`spaces.json` beside this module holds the names of the observation and the action space of each id;
`docs/scripts/spaces.py` writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from gymnasium.envs.registration import EnvSpec, registry

from gymbridge.engines import find_engine
from gymbridge.envpool.tasks import load_tasks
from gymbridge.playground.tasks import PLAYGROUND_LIMITS, PLAYGROUND_SUITES

__all__ = ["SPACES", "Entry", "did_you_mean", "load_spaces", "read_catalogue"]

SPACES = Path(__file__).with_name("spaces.json")
"""File with the names of the observation and the action space by id."""


class Entry(NamedTuple):
    """What is known about an id."""

    id: str
    family: str | None  # the engine's own folder for it
    observation_space: str | None  # one environment's, None where it is not known
    action_space: str | None
    max_episode_steps: int | None  # the task's, None for no limit


def read_catalogue() -> Iterator[Entry]:
    """Yield every id of gymbridge's engines that is registered, in the order of registration."""
    known = load_spaces()
    for env_id, spec in registry.items():
        if find_engine(env_id) is not None:
            observations, actions = known.get(env_id, (None, None))
            yield Entry(env_id, _family(spec), observations, actions, _limit(spec))


def load_spaces() -> dict[str, list[str]]:
    """Return the names of the observation and the action space by id."""
    return json.loads(SPACES.read_text(encoding="utf-8"))


def _family(spec: EnvSpec) -> str | None:
    name = spec.kwargs.get("task_id") or spec.kwargs.get("env")
    if spec.namespace == "EnvPool":
        task = load_tasks().get(str(name))
        return task["family"] if task else None
    if spec.namespace == "Playground":
        return next((suite for suite, limits in PLAYGROUND_SUITES.items() if name in limits), None)
    return "brax"


def _limit(spec: EnvSpec) -> int | None:
    if spec.max_episode_steps is not None:
        return spec.max_episode_steps
    # Some ids leave it to the keywords; this is the limit without any.
    task = load_tasks().get(str(spec.kwargs.get("task_id")))
    return task["max_episode_steps"] if task else PLAYGROUND_LIMITS.get(str(spec.kwargs.get("env")))


def did_you_mean(text: str) -> str:
    """Return a hint: the ids whose task is named most like `text`, or else what lists all ids.

    Example:
        >>> did_you_mean("EnvPool/ponng")
        " Did you mean 'EnvPool/Pong-v5'?"
    """
    by_name: dict[str, list[str]] = {}
    for entry in read_catalogue():
        by_name.setdefault(_task_name(entry.id), []).append(entry.id)
    close = get_close_matches(_task_name(text), by_name, n=3)
    ids = [env_id for name in close for env_id in by_name[name]][:5]
    return (
        f" Did you mean {' or '.join(map(repr, ids))}?" if ids else " `gymbridge list` shows all."
    )


def _task_name(env_id: str) -> str:
    """Return an id's name in lower case, without its engine, the suite of EnvPool and version."""
    return re.sub(r"-v\d+$", "", re.split("[/.]", env_id)[-1]).lower()
