"""README and documentation as GitHub shows them: every link has a text and leads somewhere."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

markdown_it = pytest.importorskip("markdown_it")

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
RENDERER = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"])


def links(text: str) -> Iterator[tuple[str, str]]:
    """Yield the visible text and the target of each link and of each picture."""
    for block in RENDERER.parse(text):
        target, shown = None, ""
        for token in block.children or []:  # of a paragraph, a heading or a cell of a table
            if token.type == "link_open":
                target, shown = str(token.attrGet("href")), ""
            elif token.type == "link_close":
                yield shown, target or ""
            elif token.type == "image":
                shown += token.content
                yield token.content, str(token.attrGet("src"))
            else:
                shown += token.content


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub and MyST give the headings of a page."""
    tokens, found = RENDERER.parse(text), list[str]()
    for opening, inline in itertools.pairwise(tokens):
        if opening.type == "heading_open":
            words = "".join(token.content for token in inline.children or [])
            anchor = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
            count = sum(
                re.fullmatch(re.escape(anchor) + r"(-\d+)?", other) is not None for other in found
            )
            found.append(f"{anchor}-{count}" if count else anchor)
    return set(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page__has_no_empty_and_no_dead_link_and_no_comment_of_myst(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"^% ", text, re.MULTILINE)
    for shown, target in links(text):
        assert shown.strip(), f"the link to {target} has no text"
        if re.match(r"https?:|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"[{shown}] leads to {target}, which does not exist"
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), f"[{shown}]: {target}"


def test_links__finds_empty_links_and_repeated_headings() -> None:
    text = (
        "# A `b` c!\n\n## One\n\n## One\n\n| x |\n|---|\n| [](y.md) |\n\n![](z.svg) [*t*](#one-1)\n"
    )
    assert list(links(text)) == [("", "y.md"), ("", "z.svg"), ("t", "#one-1")]
    assert anchors(text) == {"a-b-c", "one", "one-1"}
