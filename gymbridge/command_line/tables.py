"""Tables of plain text, which `grep` and `awk` can read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["make_table"]


def make_table(rows: Iterable[Sequence[object]], *, numbers: Sequence[int] = ()) -> str:
    """Return rows as aligned columns, two spaces apart.

    Args:
        rows: Cells by row; the first row is the header.
        numbers: Indices of columns that are aligned at the right.

    Example:
        >>> print(make_table([("id", "limit"), ("Brax/ant-v0", 1000)], numbers=[1]))
        id           limit
        Brax/ant-v0   1000
    """
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "  ".join(
            cell.rjust(width) if place in numbers else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )
    return "\n".join(line.rstrip() for line in lines)
