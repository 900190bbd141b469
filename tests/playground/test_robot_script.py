"""How the script that steps every robot beside Playground compares and restarts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.example_runs import load_script

script: Any = load_script(Path(__file__).parents[2] / "docs" / "scripts" / "robots.py")


def test_select__leaves_what_environments_share() -> None:
    jax = pytest.importorskip("jax")
    new, old = ({"own": np.full((2, 1), one), "shared": np.full(5, one)} for one in (1, 0))
    chosen = script._select(jax, np.array([True, False]), new, old)
    assert chosen["own"].tolist() == [[1], [0]]
    assert chosen["shared"].tolist() == [0] * 5


def test_difference__of_a_number_from_nan_is_infinite() -> None:
    nan = np.array([1.0, np.nan])
    assert script.difference(nan, nan) == 0
    assert script.difference(nan, np.ones(2)) == script.difference(np.ones(2), nan) == np.inf
