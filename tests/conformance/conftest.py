"""What conformance tests run on."""

from __future__ import annotations

import pytest
from batches import ENGINES, SCRIPTED


@pytest.fixture(params=SCRIPTED)
def scripted(request: pytest.FixtureRequest) -> str:
    """The scripted task, whose every step is known: on the host, and as a Brax environment."""
    return request.param


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Every engine."""
    return request.param
