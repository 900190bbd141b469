"""The table of `docs/reference/reproducibility.md`: each entry is tested."""

from __future__ import annotations

import pytest

from tests.support.reproducibility import BATCHES, BRAX, ELSEWHERE, HERE, TABLE, check_column

pytestmark = pytest.mark.long


def test_table__has_a_test_for_each_entry() -> None:
    rows = [row for differences in (*HERE, ELSEWHERE) for row in differences]
    assert sorted(rows) == sorted({row for row, _ in TABLE})
    assert [*dict.fromkeys(column for _, column in TABLE)] == [*BATCHES]
    assert {*TABLE.values()} == {"bits", "rounding", ""}


@pytest.mark.slow
@pytest.mark.parametrize("column", [column for column in BATCHES if column not in BRAX])
def test_run__is_reproduced(column: str) -> None:
    check_column(column)
