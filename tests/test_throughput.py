"""The script of steps per second measures every route, and its charts are drawn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "benchmarks"


def start(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FOLDER / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)


def run(script: str, *arguments: str) -> str:
    """Return what a script prints."""
    done = start(script, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fail(script: str, *arguments: str) -> str:
    """Return the error of a script, which has no traceback."""
    done = start(script, *arguments)
    assert done.returncode > 0
    assert "Traceback" not in done.stderr
    return done.stderr


def test_curves__are_printed_and_drawn_with_values_that_a_route_lacks(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    task = {"task": "some (64 environments)", "axis": "devices"}
    ours, theirs = "gymbridge, jax, NextStep", "bare"
    results = [
        {**task, "value": 1, "steps_per_second": {ours: [1e3, 4e3, 2e3], theirs: [5e3]}},
        {**task, "value": 2, "steps_per_second": {ours: [3e3]}},
    ]
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"machine": "", "results": results}), encoding="utf-8")
    printed = run("charts.py", str(path), f"--out={tmp_path}").splitlines()
    assert printed[1:5] == [
        "| devices | 1 | 2 |",
        "|---|---:|---:|",
        f"| {ours} | 2,000 | 3,000 |",
        f"| {theirs} | 5,000 |  |",
    ]
    assert (tmp_path / "curves_some.svg").read_text("utf-8").startswith("<?xml")


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"results": [{"task": "some"}]}'])
def test_charts__of_a_broken_file_say_which(text: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "broken.json"
    path.write_text(text, encoding="utf-8")
    for file in (path, tmp_path / "missing.json"):
        assert f"{file} has no results: " in fail("charts.py", str(file))


def test_charts__leave_out_routes_without_rounds(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    task = {"task": "some", "axis": "environments", "value": 1}
    results = [
        {**task, "steps_per_second": {"one": [2e3], "two": []}},
        {**task, "task": "other", "steps_per_second": {}},
    ]
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"results": results}), encoding="utf-8")
    assert run("charts.py", str(path), f"--out={tmp_path}").split() == [f"{tmp_path}/dots_some.svg"]
    chart = (tmp_path / "dots_some.svg").read_text(encoding="utf-8")
    assert "<!-- one -->" in chart
    assert "<!-- two -->" not in chart


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--tasks=["], "'[' is not a regular expression: "),
        (["--tasks=nothing"], "No task matches 'nothing'; there are CartPole-v1, "),
        (["--routes=nothing"], "No route was measured: 'nothing' matches none"),
        (["--rounds=0"], "--rounds: must be at least 1, got 0"),
        (["--seconds=-1"], "--seconds: must be positive and finite, got -1"),
        (["--values=-2"], "--values: must be at least 0, got -2"),
    ],
)
def test_flags__that_measure_nothing_are_an_error(
    flags: list[str], text: str, tmp_path: Path
) -> None:
    pytest.importorskip("tqdm")
    out = tmp_path / "results.json"
    assert text in fail("throughput.py", *flags, f"--out={out}")
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("libraries", "task", "names", "num_routes"),
    [
        (("envpool.registration", "torchrl", "stable_baselines3"), "^CartPole-v1", "", 16),
        # Each route of these compiles physics.
        (("brax.envs", "torchrl"), "^inverted_pendulum", "training|BraxWrapper", 2),
        (("mujoco_playground",), "^CartpoleBalance", "wrap", 1),
        (("brax.envs",), "^devices", "jax", 1),
        (("brax.envs",), "^gradients", "gymbridge|scan", 4),
        (("brax.envs",), "^infos", "", 3),
        (("brax.envs",), "^restarts of reacher", "wrap|SameStep", 2),
        (("envpool.registration",), "^restarts of Pendulum", "", 4),
    ],
)
def test_routes__are_measured_and_drawn(
    libraries: tuple[str, ...], task: str, names: str, num_routes: int, tmp_path: Path
) -> None:
    for library in (*libraries, "jax", "torch", "matplotlib"):
        pytest.importorskip(library)
    out = tmp_path / "results.json"
    options = ["--rounds=1", "--seconds=0.01", f"--out={out}", "--values=2", "--tasks", task]
    options += ["--routes", names]
    printed = run("throughput.py", *options)
    [result] = json.loads(out.read_text(encoding="utf-8"))["results"]
    rounds = result["steps_per_second"]
    assert len(rounds) == num_routes, printed
    assert all(speed > 0 for speeds in rounds.values() for speed in speeds)
    run("charts.py", str(out), f"--out={tmp_path}")
    [chart] = tmp_path.glob("*.svg")
    assert chart.read_text(encoding="utf-8").startswith("<?xml")
