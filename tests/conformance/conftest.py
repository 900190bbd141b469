"""What conformance tests run on."""

from __future__ import annotations

import pytest

from tests.support.batches import SCRIPTED


@pytest.fixture(params=SCRIPTED)
def scripted(request: pytest.FixtureRequest) -> str:
    """The scripted task, whose every step is known: on the host, and as a Brax environment."""
    return request.param
