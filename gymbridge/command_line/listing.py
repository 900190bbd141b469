"""``gymbridge list``: the ids, their spaces and their time limits."""

from __future__ import annotations

import argparse
import json
import sys
from fnmatch import fnmatchcase
from typing import Any

from tabulate import tabulate

from gymbridge.command_line.catalogue import Entry, read_catalogue
from gymbridge.command_line.options import add_json

__all__ = ["add_to", "find_entries", "run"]

_WIDEST = 64
"""Characters of a space in a table; names of `Dict` spaces have up to 700."""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "list",
        help="list the ids with their spaces and time limits",
        description="List the ids of Brax, Playground and EnvPool with the engine's family, the "
        "spaces of one environment and the time limit in steps. No engine is imported, and none "
        "needs to be installed. The exit code is 1 if no id matches.",
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
        print(json.dumps([entry._asdict() for entry in found], indent=2))
    elif found:
        print(_table(found))
        print(f"\n{len(found):,} ids", file=sys.stderr)
    else:
        print(f"No id matches {given.pattern!r}.", file=sys.stderr)
    return 0 if found else 1


def find_entries(pattern: str) -> list[Entry]:
    """Return the entries whose id or family contains a pattern, whatever its case."""
    wanted = f"*{pattern.lower()}*"
    return [
        entry
        for entry in read_catalogue()
        if fnmatchcase(entry.id.lower(), wanted) or fnmatchcase(entry.family or "", wanted)
    ]


def _table(found: list[Entry]) -> str:
    header = ("id", "family", "observation space", "action space", "limit")
    alignment = [*["left"] * 4, "right"]
    return tabulate(map(_row, found), header, "plain", colalign=alignment, disable_numparse=True)


def _row(entry: Entry) -> list[object]:
    cells = entry._replace(
        observation_space=_cut(entry.observation_space), action_space=_cut(entry.action_space)
    )
    return ["-" if cell is None else cell for cell in cells]


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
