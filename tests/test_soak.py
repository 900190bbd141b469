"""`examples/soak.py` finds batches that drift, and none in the package's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.example_runs import Printed, run_script

BARS = {"Leaks": ["growth"], "Compiles": ["compilations"], "Differs": ["digests_equal"]}


def soak(out: Path, *arguments: str, code: int = 0) -> Printed:
    """Run the script in a process, which finds the sample batches, too."""
    return run_script("soak", f"--out={out}", *arguments, code=code)


def read_cases(out: Path) -> list[dict[str, Any]]:
    return json.loads(out.read_text(encoding="utf-8"))["cases"]


def broken_bars(case: dict[str, Any]) -> list[str]:
    is_broken = {
        "growth": case["growth"] >= 1,
        "compilations": case["compilations"] > 0,
        "digests_equal": not case["digests_equal"],
    }
    return [name for name, broken in is_broken.items() if broken]


@pytest.mark.slow
def test_soak__passes_and_skips_the_cases_it_has_run(tmp_path: Path) -> None:
    out = tmp_path / "new" / "soak.json"
    sizes = ("--steps=1500", "--modes=SameStep", "--arrays=numpy")
    ids = ("--env-ids", "EnvPool/CartPole-v1", "Brax/fast-v0")
    both = soak(out, *sizes, *ids)
    cases = read_cases(out)
    assert [case["env_id"] for case in cases] == ["EnvPool/CartPole-v1", "Brax/fast-v0"]
    assert [(case["num_envs"], case["steps"]) for case in cases] == [(64, 1500), (256, 1500)]
    assert all(case["passed"] and case["episodes"] > 50 for case in cases)
    assert [broken_bars(case) for case in cases] == [[], []]
    *_, table, row = both.lines
    assert table.startswith("| EnvPool/CartPole-v1, 64 environments, SameStep, numpy | 1,500 | ")
    assert row.startswith("| Brax/fast-v0, 256 environments, SameStep, numpy | 1,500 | ")
    assert row.endswith(" | 0 | yes | yes |")
    assert soak(out, *sizes, *ids).lines[-2:] == [table, row]
    assert read_cases(out) == cases, "they were run again"


@pytest.mark.slow
def test_soak__fails_where_a_bar_is_broken(tmp_path: Path) -> None:
    out = tmp_path / "soak.json"
    # In fewer steps a process of 50 MB still warms up, by more than one percent.
    sizes = ("--steps=10000", "--modes=Disabled", "--arrays=numpy")
    ids = [f"tests.support.soak_samples:{name}-v0" for name in BARS]
    failed = soak(out, *sizes, "--env-ids", *ids, code=1)
    cases = read_cases(out)
    assert [broken_bars(case) for case in cases] == [*BARS.values()]
    assert [case["compilations"] for case in cases] == [0, 1, 0]
    passed = [line.split(" | ")[-1] for line in failed.lines[-len(BARS) :]]
    assert passed == ["no |"] * 3
    soak(out, *sizes, "--env-ids", ids[0], code=1)  # a case that failed before still fails
