"""Every test here runs with torch and with jax arrays, where they are installed."""

from __future__ import annotations

import pytest
from tensors import KINDS


@pytest.fixture(params=KINDS)
def arrays(request: pytest.FixtureRequest) -> str:
    """The kind of arrays of the user."""
    pytest.importorskip(request.param)
    return request.param
