"""The script that steps every robot goes on where it stopped, and a robot may fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.example_runs import load_script

script: Any = load_script(Path(__file__).parents[2] / "docs" / "scripts" / "robots.py")

MODE = {"ends": {"terminated": 1, "truncated": 64}, "difference": 2e-6}
COMPARED = {"name": "Go1Getup", **dict.fromkeys(script.MODES, MODE)}
RATES = {"NextStep": 8000.4, "SameStep": 4000.0, "Playground": 8800.0}
RESULT = COMPARED | {"compile_seconds": 61.4, "steps_per_second": RATES}


@pytest.fixture(params=["jax", "warp"])
def impl(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each implementation of MJX, whose results are in `tmp_path`."""
    monkeypatch.setattr(script, "FOLDERS", {request.param: tmp_path})
    return request.param


def test_run__keeps_what_is_there_and_survives_a_robot_that_fails(
    impl: str, tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "Go1Getup.json").write_text(json.dumps(RESULT))
    for _ in range(2):
        script.run(["Go1Getup", "NoRobot"], impl, 60, script.PARTS)
    printed = capsys.readouterr().out
    assert printed.startswith("NoRobot compare: robots.py: error: ")
    assert printed.count("\n") == 1
    assert json.loads((tmp_path / "Go1Getup.json").read_text()) == RESULT
    assert (
        "no such robots: ['NoRobot']"
        in json.loads((tmp_path / "NoRobot.json").read_text())["failed"]
    )


def test_run__measures_the_part_that_is_missing(
    impl: str, tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "Go1Getup.json").write_text(json.dumps(COMPARED))
    parts = []

    def measure(*arguments: Any) -> dict[str, Any]:
        parts.append(arguments)
        return {"steps_per_second": RATES}

    monkeypatch.setattr(script, "run_process", measure)
    for _ in range(2):
        script.run(["Go1Getup"], impl, 60, script.PARTS)
    assert parts == [("Go1Getup", impl, "time", 60)]
    found = json.loads((tmp_path / "Go1Getup.json").read_text())
    assert found == COMPARED | {"steps_per_second": RATES}


def test_run__keeps_a_comparison_whose_times_fail(
    impl: str, tmp_path: Path, monkeypatch: Any
) -> None:
    path = tmp_path / "Go1Getup.json"
    path.write_text(json.dumps(COMPARED))
    monkeypatch.setattr(script, "run_process", lambda *_: {"failed": "more than 60 s"})
    script.run(["Go1Getup"], impl, 60, script.PARTS)
    assert json.loads(path.read_text()) == COMPARED


def test_table__has_a_row_for_each_result_and_names_the_others(tmp_path: Path) -> None:
    (tmp_path / "Go1Getup.json").write_text(json.dumps(RESULT))
    (tmp_path / "G1.json").write_text(json.dumps(COMPARED | {"name": "G1"}))
    (tmp_path / "H1.json").write_text(json.dumps({"name": "H1", "failed": "out of memory"}))
    table = script.make_table(tmp_path).splitlines()
    assert table[2] == "| `G1` |  |  |  |  | 3 | 192 | 2.0e-06 |"
    assert table[3] == "| `Go1Getup` | 61 | 8,000 | 1.10 | 2.20 | 3 | 192 | 2.0e-06 |"
    assert "- `H1` failed: out of memory" in table
    assert table[-1].startswith("Not run yet: `AeroCubeRotateZAxis`, ")
    assert "Go1Getup" not in table[-1]


def test_table_over_warp__has_ends_and_differences(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(script, "FOLDERS", {"warp": tmp_path})
    (tmp_path / "Go1Getup.json").write_text(json.dumps(COMPARED))
    (tmp_path / "H1.json").write_text(json.dumps({"name": "H1", "failed": "out of memory"}))
    table = script.make_warp_table().splitlines()
    assert table[2:] == ["| `Go1Getup` | 3 | 192 | 2.0e-06 |", "", "- `H1` failed: out of memory"]


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
