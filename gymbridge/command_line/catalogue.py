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

from gymnasium.envs.registration import registry

from gymbridge.engines import find_engine

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
        if (engine := find_engine(env_id)) is not None:
            facts = engine.find_facts(spec.kwargs)
            limit = facts.limit if spec.max_episode_steps is None else spec.max_episode_steps
            observations, actions = known.get(env_id, (None, None))
            yield Entry(env_id, facts.family, observations, actions, limit)


def load_spaces() -> dict[str, list[str]]:
    """Return the names of the observation and the action space by id."""
    return json.loads(SPACES.read_text(encoding="utf-8"))


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
