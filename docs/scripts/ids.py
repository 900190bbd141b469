"""Write the pages of all ids, one for each family, with their spaces and time limits.

The families become the table of `docs/reference/ids.md`, below what is written there by hand, and
each has its page in `docs/reference/ids`::

    python docs/scripts/ids.py

It needs no engine: `gymbridge list` reads the same entries.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from textwrap import shorten

from gymbridge.command_line.listing import Entry, read_catalogue

PAGE = Path(__file__).parents[1] / "reference" / "ids.md"
MARK = "<!-- table -->\n"
TABLE = "| family | ids | example |\n|---|---:|---|\n"
TREE = "\n```{toctree}\n:hidden:\n:glob:\n\nids/*\n```\n"

HEAD = """# {}

[All ids](../ids.md) says what the columns mean.

| id | observations | actions | limit |
|---|---|---|---:|
"""


def family(entry: Entry) -> str:
    """Return the title of an id's page."""
    engine = entry.id.split("/")[0]
    return engine if entry.family in (None, "brax") else f"{engine}: {entry.family}"


def row(entry: Entry) -> str:
    """Return the row of an id."""
    cells = (entry.observation_space, entry.action_space)
    found = (f"`{shorten(cell, 90, placeholder=' …')}`" if cell else "" for cell in cells)
    return f"| `{entry.id}` | {' | '.join(found)} | {entry.max_episode_steps or 'none'} |\n"


def make_pages() -> dict[Path, str]:
    """Return the text of each page by its path."""
    pages, table = dict[Path, str](), TABLE
    entries = sorted(read_catalogue(), key=lambda entry: family(entry).lower())
    for title, group in groupby(entries, key=family):
        members = list(group)
        name = re.sub(r"[\W_]+", "-", title.lower())
        table += f"| [{title}](ids/{name}.md) | {len(members)} | `{members[0].id}` |\n"
        pages[PAGE.with_suffix("") / f"{name}.md"] = HEAD.format(title) + "".join(map(row, members))
    before = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    return {PAGE: before + MARK + table + TREE, **pages}


if __name__ == "__main__":
    PAGE.with_suffix("").mkdir(exist_ok=True)
    for path, text in make_pages().items():
        path.write_text(text, encoding="utf-8")
