"""Write the page of all ids by family, with their spaces and time limits.

It becomes `docs/reference/ids.md`::

    python docs/scripts/ids.py

It needs no engine: `gymbridge list` reads the same entries.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from textwrap import shorten

from gymbridge.command_line.catalogue import Entry, read_catalogue

PAGE = Path(__file__).parents[1] / "reference" / "ids.md"

HEAD = """# All ids

Written by `python docs/scripts/ids.py`. An id works in `gym.make_vec(id, num_envs)` and in
`gym.make(id)`. The limit is the task's own, in steps; `max_episode_steps=` overrides it. A space is
that of one environment with the task's default keywords; of a `Box`, the lowest and the highest
bound, the shape and the dtype. [Brax](brax.md) and [EnvPool](envpool.md) say which tasks cannot be
built, and `gymbridge info ID` has the spaces that are cut short here.
"""


def family(entry: Entry) -> str:
    """Return the title of an id's section."""
    engine = entry.id.split("/")[0]
    return engine if entry.family in (None, "brax") else f"{engine}: {entry.family}"


def row(entry: Entry) -> str:
    """Return the row of an id."""
    cells = (entry.observation_space, entry.action_space)
    found = (f"`{shorten(cell, 90, placeholder=' …')}`" if cell else "" for cell in cells)
    return f"| `{entry.id}` | {' | '.join(found)} | {entry.max_episode_steps or 'none'} |"


def make_page() -> str:
    """Return the page."""
    parts = [HEAD]
    entries = sorted(read_catalogue(), key=lambda entry: family(entry).lower())
    for title, members in groupby(entries, key=family):
        head = f"## {title}\n\n| id | observations | actions | limit |\n|---|---|---|---:|"
        parts.append("\n".join([head, *map(row, members)]) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
