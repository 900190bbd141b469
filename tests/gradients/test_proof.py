"""Some pairs of the gradient proof meet its bars, and its judges see what misses one."""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

pytestmark = pytest.mark.long

SCRIPTS = Path(__file__).parents[2] / "examples" / "gradients"
PAIRS = {
    "inverted_pendulum/generalized": ("float64",),
    "reacher/spring": ("float32", "float64"),
    "hopper/spring": ("float64",),  # with contacts
    "reacher/mjx": ("float64",),  # at the optimum of MJX's solver
    "inverted_pendulum/mjx": ("float64",),
}
"""Pairs and the floats that they are measured in."""

SINGLE = {
    "finite": True,
    "same_ends": True,
    "losses": 1e-16,
    "equality": {"policy": 2e-7, "noise": 3e-7, "state": 1e-7},
    "sensitivity": {"policy": 2e-6, "noise": 3e-6, "state": 1e-6},
}
DOUBLE = {**SINGLE, "equality": {"policy": 3e-15}, "differences": {"median": 1e-8, "max": 2e-7}}
GOOD = {"float32": SINGLE, "float64": DOUBLE}


def changed(**parts: object) -> dict[str, object]:
    """Return the good result with other figures, as in ``float32__finite=False``."""
    result = copy.deepcopy(GOOD)
    for path, value in parts.items():
        *folders, last = path.split("__")
        place = result
        for folder in folders:
            place = place[folder]
        place[last] = value
    return result


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A script by its name."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ({}, None),
        ({"float32__equality__policy": 2e-5, "float32__sensitivity__policy": 2e-5}, None),
        ({"float32__equality__policy": 2e-5}, "float32, policy: 2.0e-05"),
        ({"float64__equality__policy": 2e-9}, "float64, policy: 2.0e-09"),
        ({"float64__equality__policy": float("nan")}, "float64, policy: nan"),
        ({"float64__unroll": {"noise": 2e-9}}, "unroll, noise: 2.0e-09"),
        ({"float64__forward": {"median": 0.0, "max": 2e-6}}, "forward mode, max: 2.0e-06"),
        ({"float64__forward": {"calm": 0.5, "max": 2e-6}}, "forward mode, max: 2.0e-06"),
        (
            {"float64__forward": {"finite": True, "calm": 0.0, "max": None}},
            "forward mode: its slope jumps in every row",
        ),
        (
            {"float64__forward": {"finite": False, "calm": 0.5, "max": 0.0}},
            "forward mode: a slope is not finite",
        ),
        ({"float64__losses": 2e-9}, "float64, losses: 2.0e-09"),
        (
            {"float64__finite": False, "float64__equality": {"policy": float("nan")}},
            "float64: the reference's own gradient is not finite",
        ),
        ({"float32__same_ends": False}, "float32: episodes ended in other steps"),
        ({"float64__differences__max": 2e-3}, "differences, max: 2.0e-03"),
        ({"float64__differences__median": 2e-5}, "differences, median: 2.0e-05"),
        ({"float64__differences__median": None}, "no row is smooth within the stencil"),
        ({"float64": {"failed": "killed"}}, "killed"),
    ],
)
def test_faults__are_what_misses_its_bar(load: Any, parts: Any, fault: str | None) -> None:
    assert load("table").find_faults(changed(**parts)) == ([fault] if fault else [])


class Jumps(NamedTuple):
    """Rollouts of four rows with slopes along the noise; those of some rows jump."""

    rows: list[int]

    def push(self, inputs: Any, along: np.ndarray) -> np.ndarray:
        slopes = (2 * inputs.noise * along).sum((0, 2))
        slopes[self.rows] += np.where(inputs.noise[0, self.rows, 0] > 1, 1, -1)
        return slopes


@pytest.mark.parametrize(
    ("rows", "factor", "calm", "error"),
    [([3], 1, 0.75, 0), ([3], 1.01, 0.75, 0.01), ([0, 1, 2, 3], 1, 0, None)],
)
def test_forward_mode__judges_gradients_where_it_does_not_jump(
    load: Any, rows: list[int], factor: float, calm: float, error: float | None
) -> None:
    script = load("measure")
    noise, zeros = np.ones((3, 4, 2)), np.zeros((3, 4))
    inputs = script.Inputs(zeros, noise, zeros, zeros)
    found = script.forward_mode(Jumps(rows), inputs, factor * 2 * noise, np.random.default_rng(0))
    assert (found["finite"], found["calm"]) == (True, calm)
    assert found["max"] == (error if error is None else pytest.approx(error, abs=1e-9))


class Curves:
    """Rollouts whose losses are squares; beside the noise rows 2 and 3 have a contact, a corner."""

    def watch(self, inputs: Any) -> tuple[np.ndarray, np.ndarray]:
        beyond = np.maximum(inputs.noise[0, :, 0] - 1 - 1e-7, 0)
        losses = (inputs.noise**2).sum((0, 2)) + 1e3 * beyond * [0, 0, 0, 1]
        return losses, (beyond > 0)[:, None] & [[False], [False], [True], [False]]


@pytest.mark.parametrize(("factor", "error"), [(1, 0), (1.01, 0.01)])
def test_differences__judge_gradients_in_smooth_rows(
    load: Any, factor: float, error: float
) -> None:
    script = load("measure")
    noise, zeros, rng = np.ones((3, 4, 2)), np.zeros((3, 4)), np.random.default_rng(0)
    inputs = script.Inputs(zeros, noise, zeros, zeros)
    found = script.finite_differences(Curves(), inputs, factor * 2 * noise, rng)
    assert (found["steady"], found["smooth"], found["kept"]) == (0.75, 0.75, 0.5)
    assert found["median"] == pytest.approx(error, abs=1e-8)
    assert found["max"] == pytest.approx(error, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS)
def test_gradients__meet_their_bars(load: Any, pair: str) -> None:
    proof, find_faults = load("proof"), load("table").find_faults
    result: dict[str, Any] = {"pair": pair}
    with ThreadPoolExecutor(2) as pool:
        measured = pool.map(lambda one: proof.measure(pair, one, 1800), PAIRS[pair])
        result |= zip(PAIRS[pair], measured, strict=True)
    assert find_faults(result) == [], json.dumps(result, indent=1)
    double = result["float64"]
    assert double["norms"]["observations"] > 0
    assert double["differences"]["kept"] > 0.25
    has_contacts = not pair.startswith(("inverted", "reacher"))
    assert double["differences"]["active"] > 0.25 or not has_contacts
    assert ("unroll" in double) == (pair in load("measure").WITH_UNROLL)
    assert ("forward" in double) == pair.endswith("mjx")
