"""What every conformance test runs on."""

from __future__ import annotations

import pytest
from batches import SIMULATORS


@pytest.fixture(params=SIMULATORS)
def simulator(request: pytest.FixtureRequest) -> str:
    """The way to the scripted task: a host simulator, or a Brax environment."""
    return request.param
