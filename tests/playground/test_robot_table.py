"""The script that steps every robot goes on where it stopped, and a robot may fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from example_runs import load_script

script: Any = load_script(Path(__file__).parents[2] / "docs" / "scripts" / "robots.py")

MODE = {"ends": {"terminated": 1, "truncated": 64}, "difference": 2e-6}
RESULT = {
    "name": "Go1Getup",
    "compile_seconds": 61.4,
    "steps_per_second": {"NextStep": 8000.4, "SameStep": 4000.0, "Playground": 8800.0},
    **dict.fromkeys(script.MODES, MODE),
}


def test_run__keeps_what_is_there_and_survives_a_robot_that_fails(
    tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "Go1Getup.json").write_text(json.dumps(RESULT))
    for _ in range(2):
        script.run(["Go1Getup", "NoRobot"], tmp_path, 60)
    printed = capsys.readouterr().out
    assert printed.startswith("NoRobot: ")
    assert printed.count("NoRobot: ") == 1
    assert json.loads((tmp_path / "Go1Getup.json").read_text()) == RESULT
    assert (
        "no such robots: ['NoRobot']"
        in json.loads((tmp_path / "NoRobot.json").read_text())["failed"]
    )


def test_table__has_a_row_for_each_result_and_names_the_others(tmp_path: Path) -> None:
    (tmp_path / "Go1Getup.json").write_text(json.dumps(RESULT))
    (tmp_path / "H1.json").write_text(json.dumps({"name": "H1", "failed": "out of memory"}))
    table = script.make_table(tmp_path).splitlines()
    assert table[2] == "| `Go1Getup` | 61 | 8,000 | 1.10 | 2.20 | 3 | 192 | 2.0e-06 |"
    assert "- `H1` failed: out of memory" in table
    assert table[-1].startswith("Not run yet: `AeroCubeRotateZAxis`, ")
    assert "Go1Getup" not in table[-1]
