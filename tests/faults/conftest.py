"""The child process that tests of faults share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from children import Child


@pytest.fixture(scope="session")
def child() -> Iterator[Child]:
    """A process that runs functions with a time limit."""
    child = Child()
    yield child
    child.stop()
