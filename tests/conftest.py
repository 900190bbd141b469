"""Settings that every test shares."""

from __future__ import annotations

import os

# Before any import of jax: tests run on the CPU, and compiled physics is kept between runs.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.expanduser("~/.cache/gymbridge/jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")

import pytest
from hypothesis import settings

settings.register_profile("gymbridge", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("gymbridge")

MODES = ("NextStep", "SameStep", "Disabled")


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """Each autoreset mode, by its value."""
    return request.param
