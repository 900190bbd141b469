"""Batches return, step by step, what one of EnvPool's own pools per environment returns."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("envpool")

from envpool_oracle import CASES
from own_process import run_alone

from gymbridge.envpool.tasks import load_tasks

pytestmark = pytest.mark.slow


def test_oracle__compares_30000_steps_of_every_family() -> None:
    tasks = load_tasks()
    assert {task_id: tasks[task_id]["family"] for task_id in CASES} == {
        task_id: case.family for task_id, case in CASES.items()
    }
    families = {task["family"] for task in tasks.values() if task["max_num_players"] == 1}
    assert {case.family for case in CASES.values()} == families
    assert sum(case.steps for case in CASES.values()) > 30_000


@pytest.mark.parametrize(
    "task_id",
    [
        pytest.param(task_id, marks=[pytest.mark.needs_qt5] if case.family == "procgen" else [])
        for task_id, case in CASES.items()
    ],
)
def test_batch__is_one_of_envpools_own_pools_per_environment(task_id: str, tmp_path: Path) -> None:
    """In every mode and under every limit; raises at the first difference."""
    line = run_alone("envpool_oracle.py", task_id, folder=tmp_path)
    steps, rest = line.split(maxsplit=1)
    assert rest.startswith(f"steps of {task_id} compared")
    assert int(steps) >= CASES[task_id].steps
