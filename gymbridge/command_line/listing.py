"""``gymbridge list``: the ids, their spaces and their time limits."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Any

from gymbridge.command_line.catalogue import Entry, did_you_mean, read_catalogue
from gymbridge.command_line.options import add_json
from gymbridge.command_line.output import count, cut, note, show

__all__ = ["add_to", "find_entries", "run"]

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


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
        first = sum(_rank(entry, given.pattern.lower()) < 2 for entry in found)
        order = f"; {given.pattern!r} begins a word in the first {first:,}"
        note(f"\n{count(len(found), 'id')}{order if 0 < first < len(found) else ''}")
    else:
        note(f"No id matches {given.pattern!r}.{did_you_mean(given.pattern)}")
    return 0 if found else 1


def find_entries(pattern: str) -> list[Entry]:
    """Return the entries whose id or family contains a pattern, whatever its case.

    Those in which it matches whole words come first, then those in which it matches from the
    beginning of a word. Each kind is in the order of registration.
    """
    pattern = pattern.lower()
    wanted = f"*{pattern}*"
    found = [
        entry
        for entry in read_catalogue()
        if fnmatchcase(entry.id.lower(), wanted) or fnmatchcase(entry.family or "", wanted)
    ]
    return sorted(found, key=lambda entry: _rank(entry, pattern)) if pattern else found


def _rank(entry: Entry, pattern: str) -> int:
    """Return 0 for whole words that match, 1 for the beginning of a word, 2 for other matches."""
    parts: set[str] = set()
    tails: set[str] = set()
    for text in (entry.id, entry.family or ""):
        words = [word.span() for word in _WORD.finditer(text)]
        tails |= {text[start:].lower() for start, _ in words}
        borders = sorted({border for span in words for border in span})
        parts |= {text[start:end].lower() for start, end in combinations(borders, 2)}
    if any(fnmatchcase(part, pattern) for part in parts):
        return 0
    return 1 if any(fnmatchcase(tail, f"{pattern}*") for tail in tails) else 2


def _lines(found: list[Entry]) -> list[str]:
    """Return a table, whose lines are no wider than the terminal if it goes to one.

    A terminal has room for few wide cells, so that a long id moves the rest of its own line alone.
    The last column is the widest, since a terminal cuts it first.
    """
    rows = [("id", "family", "limit", "action space", "observation space")] + [
        (env_id, family or "-", str(limit or "-"), actions or "-", observations or "-")
        for env_id, family, observations, actions, limit in found
    ]
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    most = columns // 2 if columns else sys.maxsize
    sizes = [min(most, max(map(len, column))) for column in zip(*rows, strict=True)]
    style = "{{:{}}}  {{:{}}}  {{:>{}}}  {{:{}}}  {{}}".format(*sizes)
    lines = [style.format(*row) for row in rows]
    return [cut(line, columns) for line in lines] if columns else lines
