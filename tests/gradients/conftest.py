"""These tests need Brax and torch."""

from __future__ import annotations

import pytest

pytest.importorskip("brax")
pytest.importorskip("torch")
