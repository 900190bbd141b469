"""``gymbridge list``: the ids of every engine, and what is known without importing the engine.

`spaces.json` beside this module holds the names of the observation and the action space of each id;
`docs/scripts/spaces.py` writes it.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Iterator
from fnmatch import translate
from pathlib import Path
from typing import Any, NamedTuple

from gymnasium.envs.registration import registry

from gymbridge.command_line.options import add_json
from gymbridge.command_line.output import count, note, show
from gymbridge.engines import find_engine

__all__ = ["SPACES", "Entry", "add_to", "find_entries", "read_catalogue", "run"]

SPACES = Path(__file__).with_name("spaces.json")
"""File with the names of the observation and the action space by id."""

_BORDER = (
    r"(?-i:(?<![^\W_])|(?![^\W_])|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
    r"|(?<=\d)(?=\D)|(?<=\D)(?=\d))"
)
"""Matches where a word begins or ends: ``HopperHop5x5`` has five."""


class Entry(NamedTuple):
    """What is known about an id."""

    id: str
    family: str | None  # the engine's own folder for it
    observation_space: str | None  # one environment's, None where it is not known
    action_space: str | None
    max_episode_steps: int | None  # the task's, None for no limit


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "list",
        help="list the ids with their spaces and time limits",
        description="List the ids of Brax, Playground and EnvPool with the engine's family, the "
        "time limit in steps and the spaces of one environment. Those in which whole words match "
        "come first, then those in which the beginning of a word does. No engine is imported, and "
        "none needs to be installed. A terminal cuts lines at its width; in a pipe or a file they "
        "are complete. The exit code is 1 if no id matches.",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "pattern",
        nargs="?",
        default="",
        metavar="PATTERN",
        help="part of an id or of a family, such as cartpole, atari or 'brax/*pendulum'; case is "
        "ignored, and *, ? and [...] are wildcards (default: all ids)",
    )
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Print the ids that match, and return 1 if none does."""
    found = find_entries(given.pattern)
    if given.json:
        show([entry._asdict() for entry in found])
    elif found:
        show("\n".join(_lines(found)))
        note(f"\n{count(len(found), 'id')}")
    else:
        note(f"No id matches {given.pattern!r}; a part of it may, and without one all are listed.")
    return 0 if found else 1


def find_entries(pattern: str) -> list[Entry]:
    """Return the entries whose id or family contains a pattern, whatever its case.

    Those in which it matches whole words come first, then those in which it matches from the
    beginning of a word. Each kind is in the order of registration.
    """
    wanted = translate(pattern)[:-2]  # The last two characters match the end of a text.
    ways = _BORDER + wanted + _BORDER, _BORDER + wanted, wanted
    texts = {entry: f"{entry.id} {entry.family or ''}" for entry in read_catalogue()}
    found = [entry for way in ways for entry, text in texts.items() if re.search(way, text, re.I)]
    return [*dict.fromkeys(found)]


def read_catalogue() -> Iterator[Entry]:
    """Yield every id of gymbridge's engines that is registered, in the order of registration."""
    known = json.loads(SPACES.read_text(encoding="utf-8"))
    for env_id, spec in registry.items():
        if (engine := find_engine(env_id)) is not None:
            facts = engine.find_facts(spec.kwargs)
            limit = facts.limit if spec.max_episode_steps is None else spec.max_episode_steps
            observations, actions = known.get(env_id, (None, None))
            yield Entry(env_id, facts.family, observations, actions, limit)


def _lines(found: list[Entry]) -> list[str]:
    """Return a table. A terminal cuts its lines, so the widest column is the last.

    In a terminal a column has half of the width at most; a longer id moves the rest of its line.
    """
    rows = [("id", "family", "limit", "action space", "observation space")] + [
        (env_id, family or "-", str(limit or "-"), actions or "-", observations or "-")
        for env_id, family, observations, actions, limit in found
    ]
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else sys.maxsize
    sizes = [min(width // 2, max(map(len, column))) for column in zip(*rows, strict=True)]
    style = "{{:{}}}  {{:{}}}  {{:>{}}}  {{:{}}}  {{}}".format(*sizes)
    return [style.format(*row)[:width] for row in rows]
