"""Some pairs of the gradient proof meet its bars; the script resumes, and tables what is there."""

from __future__ import annotations

import copy
import importlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.point_mass import PointMass

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
    "norms": {"rewards": 0.0, "observations": 2.0},
    "finite": True,
    "ended": 0.25,
    "used": 0.9,
    "same_ends": True,
    "losses": 1e-16,
    "equality": {"policy": 2e-7, "noise": 3e-7, "state": 1e-7},
    "sensitivity": {"policy": 2e-6, "noise": 3e-6, "state": 1e-6},
}
DIFFERENCES = {
    "active": 1.0,
    "steady": 0.75,
    "smooth": 1.0,
    "kept": 0.75,
    "median": 1e-8,
    "max": 2e-7,
}
DOUBLE = {**SINGLE, "equality": {"policy": 3e-15}, "differences": DIFFERENCES}
GOOD = {"pair": "ant/spring", "float32": SINGLE, "float64": DOUBLE}


def changed(**parts: object) -> dict[str, object]:
    """Return the good result with other figures, as in ``float32__ended=0.5``."""
    result = copy.deepcopy(GOOD)
    for path, value in parts.items():
        *folders, last = path.split("__")
        place = result
        for folder in folders:
            place = place[folder]
        place[last] = value
    return result


@pytest.fixture
def proof(monkeypatch) -> ModuleType:
    """The script as a module."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("proof")


@pytest.fixture
def find_faults(proof):
    return importlib.import_module("table").find_faults


def test_proof__measures_what_is_missing_and_tables_all(proof, tmp_path, monkeypatch, capsys):
    calls, page = [], tmp_path / "page.md"

    def measure(pair: str, floats: str, seconds: int, *, unroll: bool) -> dict[str, object]:
        calls.append((pair, floats))
        return GOOD[floats] if pair == "ant/spring" else {"failed": "killed"}

    monkeypatch.setattr(proof, "measure", measure)
    known = {"pair": "ant/spring", "float32": SINGLE}
    (tmp_path / "ant-spring.json").write_text(json.dumps(known), encoding="utf-8")
    page.write_text("# Before\n\n<!-- table -->\nold\n", encoding="utf-8")
    args = proof.Args(pairs=("hopper/mjx", "ant/spring", "ant/mjx"), out=tmp_path, page=page)
    for missing in (
        [("hopper/mjx", "float64"), ("ant/spring", "float64"), ("ant/mjx", "float64")],
        [],
    ):
        calls.clear()
        proof.main(args)
        assert calls == missing
        before, table = page.read_text(encoding="utf-8").split("<!-- table -->\n")
        assert before == "# Before\n\n"
        assert table == capsys.readouterr().out
    _, _, spring, _, lost = table.splitlines()
    assert spring.startswith(
        "| ant/spring | 25%, 90% | 3.0e-07 | 3.0e-06 | 3.0e-15 |  | 100% "
        "| 75% (75% steady, 100% smooth) | 1.0e-08 | 2.0e-07 |"
    )
    assert lost == "- Not measured: ant/mjx, hopper/mjx. killed"


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ({}, None),
        ({"float32__equality__policy": 2e-5, "float32__sensitivity__policy": 2e-5}, None),
        ({"float32__equality__policy": 2e-5}, "float32, policy: 2.0e-05"),
        ({"float64__equality__policy": 2e-9}, "float64, policy: 2.0e-09"),
        ({"float64__equality__policy": float("nan")}, "float64, policy: nan"),
        ({"float64__unroll": {"noise": 2e-9}}, "unroll, noise: 2.0e-09"),
        ({"float64__forward": {"median": 0.0, "max": 2e-6}}, "forward mode: 2.0e-06"),
        ({"float64__forward": {"calm": 0.5, "max": 2e-6}}, "forward mode: 2.0e-06"),
        (
            {"float64__forward": {"finite": True, "calm": 0.0, "max": None}},
            "forward mode: its slope jumps in every row",
        ),
        (
            {"float64__forward": {"finite": False, "calm": 0.5, "max": 0.0}},
            "forward mode: a slope is not finite",
        ),
        ({"float64__losses": 2e-9}, "float64, losses: 2.0e-09"),
        ({"float64__finite": False}, "float64: the reference's own gradient is not finite"),
        ({"float32__same_ends": False}, "float32: episodes ended in other steps"),
        ({"float64__differences__max": 2e-3}, "differences, max: 2.0e-03"),
        ({"float64__differences__median": 2e-5}, "differences, median: 2.0e-05"),
        ({"float64__differences__median": None}, "no row is smooth within the stencil"),
        ({"float64": {"failed": "killed"}}, "killed"),
    ],
)
def test_faults__are_what_misses_its_bar(find_faults, parts, fault):
    assert find_faults(changed(**parts)) == ([fault] if fault else [])


def test_faults__of_a_gradient_that_is_nan_are_that_it_is(find_faults):
    nan = {"policy": float("nan")}
    assert find_faults(changed(float64__finite=False, float64__equality=nan)) == [
        "float64: the reference's own gradient is not finite"
    ]


def test_table__says_which_pairs_are_ill_conditioned_in_float64(proof):
    for moved, is_told in ((2e-9, True), (2e-10, False)):
        table = proof.make_table([changed(float64__sensitivity={"policy": moved})])
        assert (f"one ulp moves JAX's own gradient by {moved:.1e}" in table) == is_told


def test_table__says_where_the_derivative_jumps(proof):
    for calm in (0.75, 1.0):
        table = proof.make_table([changed(float64__forward={"calm": calm, "max": 0.0})])
        assert ("compared in 75% of the rows" in table) == (calm < 1)


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
def test_forward_mode__judges_gradients_where_it_does_not_jump(proof, rows, factor, calm, error):
    script = importlib.import_module("measure")
    noise, zeros = np.ones((3, 4, 2)), np.zeros((3, 4))
    inputs = script.Inputs(zeros, noise, zeros, zeros)
    found = script.forward_mode(Jumps(rows), inputs, factor * 2 * noise, np.random.default_rng(0))
    assert (found["finite"], found["calm"]) == (True, calm)
    assert found["max"] == (error if error is None else pytest.approx(error, abs=1e-9))


def test_measure__keeps_the_line_that_names_the_error(proof, tmp_path, monkeypatch):
    script = "raise TypeError('scan body: types differ.\\n\\nRevise the function.')"
    (tmp_path / "measure.py").write_text(script, encoding="utf-8")
    monkeypatch.setattr(proof, "SCRIPT", tmp_path / "measure.py")
    found = proof.measure("ant/spring", "float64", 60)
    assert found == {"failed": "TypeError: scan body: types differ."}


def test_measure__sets_the_floats_of_its_process(proof, tmp_path, monkeypatch):
    script = "import os; print(os.environ['JAX_ENABLE_X64'])"
    (tmp_path / "measure.py").write_text(script, encoding="utf-8")
    monkeypatch.setattr(proof, "SCRIPT", tmp_path / "measure.py")
    assert [proof.measure("ant/spring", f"float{bits}", 60) for bits in (32, 64)] == [0, 1]


class Curves:
    """Rollouts whose losses are squares; beside the noise rows 2 and 3 have a contact, a corner."""

    def watch(self, inputs: Any) -> tuple[np.ndarray, np.ndarray]:
        beyond = np.maximum(inputs.noise[0, :, 0] - 1 - 1e-7, 0)
        losses = (inputs.noise**2).sum((0, 2)) + 1e3 * beyond * [0, 0, 0, 1]
        return losses, (beyond > 0)[:, None] & [[False], [False], [True], [False]]


@pytest.mark.parametrize(("factor", "error"), [(1, 0), (1.01, 0.01)])
def test_differences__judge_gradients_in_smooth_rows(proof, factor, error):
    script = importlib.import_module("measure")
    noise = np.ones((3, 4, 2))
    zeros = np.zeros((3, 4))
    inputs = script.Inputs(zeros, noise, zeros, zeros)
    found = script.finite_differences(
        Curves(), inputs, factor * 2 * noise, np.random.default_rng(0)
    )
    assert (found["steady"], found["smooth"], found["kept"]) == (0.75, 0.75, 0.5)
    assert found["median"] == pytest.approx(error, abs=1e-8)
    assert found["max"] == pytest.approx(error, abs=1e-8)


def test_faults__of_a_pair_in_64_bits_alone(find_faults):
    result = changed(float64__forward={"median": 0.0, "max": 1e-9})
    del result["float32"]
    assert find_faults(result) == []


def test_residuals__are_counted_as_a_backward_pass_holds_them(proof, monkeypatch):
    script, env = importlib.import_module("residuals"), PointMass()
    monkeypatch.setattr(script, "make_env", lambda name, backend: env)
    state = jax.vmap(env.reset)(jnp.zeros((1000, 2), jnp.uint32))
    held = jax.vjp(jax.vmap(env.step), state, jnp.ones((1000, env.action_size)))[1]
    for key, tree in (("auto", held), ("recompute", state)):
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(tree)) / 1000
        assert script.measure("point/mass")[key] == pytest.approx(size / 1e6, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS)
def test_gradients__meet_their_bars(proof, find_faults, pair):
    unroll = pair == "reacher/spring"
    result: dict[str, Any] = {"pair": pair}
    with ThreadPoolExecutor(2) as pool:
        measured = pool.map(lambda one: proof.measure(pair, one, 1800, unroll=unroll), PAIRS[pair])
        result |= zip(PAIRS[pair], measured, strict=True)
    assert find_faults(result) == [], json.dumps(result, indent=1)
    double = result["float64"]
    assert double["norms"]["observations"] > 0
    assert double["differences"]["kept"] > 0.25
    has_contacts = not pair.startswith(("inverted", "reacher"))
    assert double["differences"]["active"] > 0.25 or not has_contacts
    assert ("unroll" in double) == unroll
    assert ("forward" in double) == pair.endswith("mjx")
