"""Tables of plain text."""

from __future__ import annotations

from gymbridge.command_line.tables import make_table


def test_table__aligns_columns() -> None:
    rows = [("name", "size"), ("a" * 9, 7), ("b", 1234)]
    assert make_table(rows, numbers=[1]).splitlines() == [
        "name       size",
        "aaaaaaaaa     7",
        "b          1234",
    ]


def test_table__has_no_spaces_at_line_ends() -> None:
    assert make_table([("a", "long"), ("long", "b")]).splitlines() == ["a     long", "long  b"]
