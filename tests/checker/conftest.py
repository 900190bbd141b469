"""What the checker's tests run on."""

from __future__ import annotations

import pytest
from gymnasium.vector import AutoresetMode


@pytest.fixture(params=AutoresetMode, ids=lambda mode: mode.name)
def mode(request: pytest.FixtureRequest) -> AutoresetMode:
    """Each autoreset mode."""
    return request.param
