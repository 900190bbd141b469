"""The script of steps per second measures every route, and its charts are drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.example_runs import call_script, run_script


def test_curves__are_printed_and_drawn_with_values_that_a_route_lacks(tmp_path: Path) -> None:
    task = {"task": "some (64 environments)", "axis": "devices"}
    ours, theirs = "gymbridge, jax, NextStep", "bare"
    results = [
        {**task, "value": 1, "steps_per_second": {ours: [1e3, 4e3, 2e3], theirs: [5e3]}},
        {**task, "value": 2, "steps_per_second": {ours: [3e3]}},
    ]
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"machine": "", "results": results}), encoding="utf-8")
    printed = call_script("benchmarks/charts", path, f"--out={tmp_path}", cwd=tmp_path)
    assert printed.lines[1:5] == [
        "| devices | 1 | 2 |",
        "|---|---:|---:|",
        f"| {ours} | 2,000 | 3,000 |",
        f"| {theirs} | 5,000 |  |",
    ]
    assert (tmp_path / "curves_some.svg").read_text("utf-8").startswith("<?xml")


def test_charts__of_a_broken_file_say_which(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    for text in ("", "{", "{}", "[]", '{"results": [{"task": "some"}]}'):
        path.write_text(text, encoding="utf-8")
        printed = call_script("benchmarks/charts", path, cwd=tmp_path, code=1)
        assert f"{path} has no results: " in printed.log
    missing = tmp_path / "missing.json"
    printed = call_script("benchmarks/charts", missing, cwd=tmp_path, code=1)
    assert f"{missing} has no results: " in printed.log


def test_charts__leave_out_routes_without_rounds(tmp_path: Path) -> None:
    task = {"task": "some", "axis": "environments", "value": 1}
    results = [
        {**task, "steps_per_second": {"one": [2e3], "two": []}},
        {**task, "task": "other", "steps_per_second": {}},
    ]
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"results": results}), encoding="utf-8")
    printed = call_script("benchmarks/charts", path, f"--out={tmp_path}", cwd=tmp_path)
    assert printed.lines == [f"{tmp_path}/dots_some.svg"]
    chart = (tmp_path / "dots_some.svg").read_text(encoding="utf-8")
    assert "<!-- one -->" in chart
    assert "<!-- two -->" not in chart


@pytest.mark.parametrize(
    ("flag", "code", "text"),
    [
        ("--tasks=[", 2, "'[' is not a regular expression: "),
        ("--tasks=nothing", 1, "No task matches 'nothing'; there are CartPole-v1, "),
        ("--routes=nothing", 1, "No route was measured: 'nothing' matches none"),
        ("--rounds=0", 2, "--rounds: must be at least 1, got 0"),
        ("--seconds=-1", 2, "--seconds: must be positive and finite, got -1"),
        ("--values=-2", 2, "--values: must be at least 0, got -2"),
    ],
)
def test_flags__that_measure_nothing_are_an_error(
    flag: str, code: int, text: str, tmp_path: Path
) -> None:
    out = tmp_path / "results.json"
    printed = call_script("benchmarks/throughput", flag, f"--out={out}", cwd=tmp_path, code=code)
    assert text in printed.log
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "names", "num_routes"),
    [
        # Of gymbridge each mode and each kind of arrays.
        ("^CartPole-v1", "^(?!gymbridge)|numpy, Next|torch, Same|jax, Disabled", 10),
        # Each route of these compiles physics.
        ("^inverted_pendulum", "training|BraxWrapper", 2),
        ("^CartpoleBalance", "wrap", 1),
        ("^devices", "jax", 1),
        ("^gradients", "step by step", 1),
        ("^infos", "Sync|SameStep", 2),
        ("^restarts of reacher", "wrap", 1),
        ("^restarts of Pendulum", "", 4),
    ],
)
def test_routes__are_measured_and_drawn(
    task: str, names: str, num_routes: int, tmp_path: Path
) -> None:
    out = tmp_path / "results.json"
    sizes = ("--rounds=1", "--seconds=0.01", "--values=2")
    chosen = ("--tasks", task, "--routes", names)
    run = run_script if "devices" in task else call_script  # as several devices
    printed = run("benchmarks/throughput", *sizes, *chosen, f"--out={out}", cwd=tmp_path)
    [result] = json.loads(out.read_text(encoding="utf-8"))["results"]
    rounds = result["steps_per_second"]
    assert len(rounds) == num_routes, printed
    assert all(speed > 0 for speeds in rounds.values() for speed in speeds)
    call_script("benchmarks/charts", out, f"--out={tmp_path}", cwd=tmp_path)
    [chart] = tmp_path.glob("*.svg")
    assert chart.read_text(encoding="utf-8").startswith("<?xml")
