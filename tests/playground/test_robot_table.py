"""The script that steps every robot goes on where it stopped, and a robot may fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from example_runs import load_script

script: Any = load_script(Path(__file__).parents[2] / "docs" / "scripts" / "robots.py")

MODE = {"ends": {"terminated": 1, "truncated": 64}, "difference": 2e-6}
COMPARED = {"name": "Go1Getup", **dict.fromkeys(script.MODES, MODE)}
RATES = {"NextStep": 8000.4, "SameStep": 4000.0, "Playground": 8800.0}
RESULT = COMPARED | {"compile_seconds": 61.4, "steps_per_second": RATES}


def test_run__keeps_what_is_there_and_survives_a_robot_that_fails(
    tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "Go1Getup.json").write_text(json.dumps(RESULT))
    for _ in range(2):
        script.run(["Go1Getup", "NoRobot"], tmp_path, 60, script.PARTS)
    printed = capsys.readouterr().out
    assert printed.startswith("NoRobot compare: robots.py: error: ")
    assert printed.count("\n") == 1
    assert json.loads((tmp_path / "Go1Getup.json").read_text()) == RESULT
    assert (
        "no such robots: ['NoRobot']"
        in json.loads((tmp_path / "NoRobot.json").read_text())["failed"]
    )


def test_run__measures_the_part_that_is_missing(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "Go1Getup.json").write_text(json.dumps(COMPARED))
    parts = []

    def measure(name: str, part: str, seconds: int) -> dict[str, Any]:
        parts.append((name, part, seconds))
        return {"steps_per_second": RATES}

    monkeypatch.setattr(script, "run_process", measure)
    for _ in range(2):
        script.run(["Go1Getup"], tmp_path, 60, script.PARTS)
    assert parts == [("Go1Getup", "time", 60)]
    found = json.loads((tmp_path / "Go1Getup.json").read_text())
    assert found == COMPARED | {"steps_per_second": RATES}


def test_run__keeps_a_comparison_whose_times_fail(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "Go1Getup.json"
    path.write_text(json.dumps(COMPARED))
    monkeypatch.setattr(script, "run_process", lambda *_: {"failed": "more than 60 s"})
    script.run(["Go1Getup"], tmp_path, 60, script.PARTS)
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
