"""``gymbridge list``: the ids, their spaces and their time limits."""

from __future__ import annotations

import argparse
import shutil
import sys
from fnmatch import fnmatchcase
from typing import Any

from tabulate import tabulate

from gymbridge.command_line.catalogue import Entry, did_you_mean, read_catalogue
from gymbridge.command_line.options import add_json
from gymbridge.command_line.output import note, show

__all__ = ["add_to", "find_entries", "run"]


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "list",
        help="list the ids with their spaces and time limits",
        description="List the ids of Brax, Playground and EnvPool with the engine's family, the "
        "time limit in steps and the spaces of one environment. No engine is imported, and none "
        "needs to be installed. A terminal cuts lines at its width; in a pipe or a file they are "
        "complete. The exit code is 1 if no id matches.",
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
        show(_fit(_table(found)))
        note(f"\n{len(found):,} ids")
    else:
        note(f"No id matches {given.pattern!r}.{did_you_mean(given.pattern)}")
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
    """Return a table whose last column is the widest, since a terminal cuts it first."""
    header = ("id", "family", "limit", "action space", "observation space")
    rows = [
        (env_id, family, limit, actions, observations)
        for env_id, family, observations, actions, limit in found
    ]
    alignment = ("left", "left", "right", "left", "left")
    return tabulate(
        rows, header, "plain", colalign=alignment, disable_numparse=True, missingval="-"
    )


def _fit(table: str) -> str:
    """Return a table whose lines are no wider than the terminal, if it goes to one."""
    if not sys.stdout.isatty():
        return table
    width = shutil.get_terminal_size().columns
    lines = table.splitlines()
    return "\n".join(line if len(line) <= width else f"{line[: width - 3]}..." for line in lines)
