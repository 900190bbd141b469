"""Every benchmark runs once with a tiny budget, and prints or writes what it measured."""

from __future__ import annotations

import json
import re
import shlex
import sys

import pytest

from tests.support.example_runs import EXAMPLES, call_script, load_script, run_script

pytestmark = [pytest.mark.slow, pytest.mark.long]

BENCHMARKS = {
    "all_cores": """--case '["fast", 4, "NextStep", "numpy"]' --rounds=1 --seconds=0.01""",
    "async_step": "--rounds=1 --count=2",
    "brax_step": "--rounds=1 --count=2 --only fast",
    "end_to_end": "--seeds 1 --max-steps=1",
    "envpool_step": "--rounds=1",
    "gradients": "--rounds=1 --rows arrays",
    "ppo_on_device": "gymbridge --task=inverted_pendulum --seconds=0 --out=result.json",
    "repeat": "1 cleanrl_step.py --rounds=1",
    # It runs on_device.py.
    "run_all": "--device=cpu --sizes 2 --rounds=1 --only=^CartPole|^variants.*NextStep",
    "sb3_step": "--rounds=1",
    "throughput": "--rounds=1 --seconds=0.01 --values=2 --tasks=^CartPole-v1 --routes=numpy.*Next",
    # In 20 steps, three rollouts of which are 15, TorchRL's wrapper would compile again.
    "trainers_step": "--rounds=1 --steps=5",
}
IN_OWN_PROCESS = ("all_cores", "ppo_on_device", "run_all")
SMALLER = {
    "playground_step": {"CASES": {("CartpoleBalance", "jax"): None}, "NUM_ENVS": 2},
    "randomization_step": {"TASK": "hopper", "NUM_ENVS": 2, "SCAN_STEPS": 3},
    "suites_step": {"NUM_ENVS": 2},
}
"""Benchmarks whose constants are made smaller."""


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmark__prints_what_it_measured(name, tmp_path):
    call = run_script if name in IN_OWN_PROCESS else call_script
    printed = call(f"benchmarks/{name}", *shlex.split(BENCHMARKS[name]), cwd=tmp_path)
    assert re.search(r"\n\| .*\d|\[\d+\.\d| steps\n", printed.out), printed.out


@pytest.mark.needs_opengl
def test_benchmark_of_frames__prints_its_rows(tmp_path):
    printed = run_script("benchmarks/rendering", "--rounds=1", cwd=tmp_path)
    assert printed.out.count("\n| ") == 5


def test_benchmark_of_atari__has_its_rows(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES / "benchmarks")
    module = load_script(EXAMPLES / "benchmarks" / "atari_step.py")
    rows = [*module.sb3_rows(2, rounds=1, updates=1), module.ale_row(2, rounds=1)]
    assert all(row.microseconds > 0 for row in rows)


@pytest.mark.parametrize("name", SMALLER)
def test_benchmark__runs_on_a_smaller_task(name, tmp_path, monkeypatch):
    pytest.importorskip("jumanji")
    monkeypatch.syspath_prepend(EXAMPLES / "benchmarks")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--rounds=1", "--count=1"])
    module = load_script(EXAMPLES / "benchmarks" / f"{name}.py")
    for constant, value in SMALLER[name].items():
        monkeypatch.setattr(module, constant, value)
    module.main()
    results = (tmp_path / "runs" / f"{name}.json").read_text("utf-8")
    assert json.loads(results)["results"]


def test_benchmark_of_snapshots__has_its_row(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES / "benchmarks")
    module = load_script(EXAMPLES / "benchmarks" / "snapshots.py")
    assert module.snapshot_row("fast", 2, tmp_path, rounds=1).microseconds > 0
