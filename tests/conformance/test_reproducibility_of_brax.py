"""Brax's columns of the table of `docs/reference/reproducibility.md`."""

from __future__ import annotations

import pytest

from tests.support.reproducibility import BRAX, check_column

pytestmark = pytest.mark.long


@pytest.mark.slow
@pytest.mark.parametrize("column", BRAX)
def test_run__is_reproduced(column: str) -> None:
    check_column(column)
