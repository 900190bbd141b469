"""Settings that the tests of all trainers share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """TorchRL logs each check of its specs."""
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)
