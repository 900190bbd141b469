"""These tests need Brax and torch."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("brax")
pytest.importorskip("torch")

from point_mass import shared_batch
from rollouts import NUM_ENVS, SEED, small_actions


@pytest.fixture
def envs() -> Any:
    """A batch in episode 0 that nothing ends."""
    envs = shared_batch(NUM_ENVS, max_episode_steps=-1)
    envs.reset(seed=SEED)
    return envs


@pytest.fixture
def actions() -> Any:
    """Three steps that end nothing."""
    return small_actions()
