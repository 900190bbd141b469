"""`examples/soak.py` finds batches that drift, and none in the package's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tqdm")

TESTS = Path(__file__).parent
SCRIPT = TESTS.parent / "examples" / "soak.py"
BARS = {
    "Stays": [],
    "Leaks": ["growth"],
    "Compiles": ["compilations"],
    "Differs": ["digests_equal"],
}


def soak(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script in a process, which finds the sample batches, too."""
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, str(SCRIPT), f"--out={out}", *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,  # on a machine with other work
    )


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
    for engine in ("brax.envs", "envpool.registration"):
        pytest.importorskip(engine)
    out = tmp_path / "new" / "soak.json"
    sizes = ("--steps=1500", "--modes=SameStep", "--arrays=numpy")
    first = soak(out, *sizes, "--env-ids", "EnvPool/CartPole-v1")
    assert first.returncode == 0, first.stderr
    [kept] = read_cases(out)
    both = soak(out, *sizes, "--env-ids", "EnvPool/CartPole-v1", "Brax/fast-v0")
    assert both.returncode == 0, both.stderr
    cases = read_cases(out)
    assert cases[0] == kept
    assert [case["env_id"] for case in cases] == ["EnvPool/CartPole-v1", "Brax/fast-v0"]
    assert [(case["num_envs"], case["steps"]) for case in cases] == [(64, 1500), (256, 1500)]
    assert all(case["passed"] and case["episodes"] > 50 for case in cases)
    assert [broken_bars(case) for case in cases] == [[], []]
    *_, table, row = both.stdout.splitlines()
    assert table.startswith("| EnvPool/CartPole-v1, 64 environments, SameStep, numpy | 1,500 | ")
    assert row.startswith("| Brax/fast-v0, 256 environments, SameStep, numpy | 1,500 | ")
    assert row.endswith(" | 0 | yes | yes |")


@pytest.mark.slow
def test_soak__fails_where_a_bar_is_broken(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    out = tmp_path / "soak.json"
    # In fewer steps a process of 50 MB still warms up, by more than one percent.
    sizes = ("--steps=10000", "--modes=Disabled", "--arrays=numpy")
    ids = [f"soak_samples:{name}-v0" for name in BARS]
    failed = soak(out, *sizes, "--env-ids", *ids)
    assert failed.returncode == 1, failed.stderr
    cases = read_cases(out)
    assert [broken_bars(case) for case in cases] == [*BARS.values()]
    assert [case["compilations"] for case in cases] == [0, 0, 1, 0]
    passed = [line.split(" | ")[-1] for line in failed.stdout.splitlines()[-len(BARS) :]]
    assert passed == ["yes |", "no |", "no |", "no |"]
    again = soak(out, *sizes, "--env-ids", *ids)
    assert again.returncode == 1, "a case that failed before still fails"
    good = soak(out, *sizes, "--env-ids", ids[0])
    assert good.returncode == 0, good.stderr
