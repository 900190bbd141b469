"""`examples/soak.py` finds batches that drift."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.example_runs import run_script

BARS = {"Leaks": ["growth"], "Compiles": ["compilations"], "Differs": ["is_equal"]}


def broken_bars(case: dict[str, Any]) -> list[str]:
    is_broken = {
        "growth": case["growth"] >= 1,
        "compilations": case["compilations"] > 0,
        "is_equal": not case["is_equal"],
    }
    return [name for name, broken in is_broken.items() if broken]


@pytest.mark.slow
def test_soak__fails_where_a_bar_is_broken(tmp_path: Path) -> None:
    out = tmp_path / "soak.json"
    # In fewer steps a process of 50 MB still warms up, by more than one percent.
    sizes = ("--steps=10000", "--modes=Disabled", "--arrays=numpy")
    ids = [f"tests.support.soak_samples:{name}-v0" for name in BARS]
    failed = run_script("soak", f"--out={out}", *sizes, "--env-ids", *ids, code=1)
    cases = json.loads(out.read_text(encoding="utf-8"))
    assert [broken_bars(case) for case in cases] == [*BARS.values()]
    assert [case["compilations"] for case in cases] == [0, 1, 0]
    assert [line.endswith("passed: False") for line in failed.lines] == [True] * 3
