"""These tests need Brax and torch."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("brax")
pytest.importorskip("torch")

from tests.support.point_mass import shared_batch
from tests.support.rollouts import SEED, small_actions


@pytest.fixture(params=["store", "recompute"])
def residuals(request: pytest.FixtureRequest) -> str:
    """What a step keeps for the backward pass."""
    return request.param


@pytest.fixture
def envs() -> Any:
    """A batch in episode 0, whose limit is beyond the actions."""
    envs = shared_batch()
    envs.reset(seed=SEED)
    return envs


@pytest.fixture
def actions() -> Any:
    """Three steps that end nothing."""
    return small_actions()
