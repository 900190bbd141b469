"""Tasks of every family that EnvPool builds, each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("envpool")

from envpool_family import RULES
from envpool_oracle import CASES

from gymbridge.envpool.tasks import load_tasks

pytestmark = pytest.mark.slow

FAMILIES = {task_id: case.family for task_id, case in CASES.items()}
FAMILIES |= {task_id: family for family, task_ids in RULES.items() for task_id in task_ids}


def test_families__are_all_tested_and_in_30000_steps_of_the_oracle() -> None:
    tasks = load_tasks()
    families = {task["family"] for task in tasks.values() if task["max_num_players"] == 1}
    assert {*RULES} == {case.family for case in CASES.values()} == families
    assert {task_id: tasks[task_id]["family"] for task_id in FAMILIES} == FAMILIES
    assert sum(case.steps for case in CASES.values()) > 30_000


@pytest.mark.parametrize(
    "task_id",
    [
        pytest.param(task_id, marks=[pytest.mark.needs_qt5] if family == "procgen" else [])
        for task_id, family in FAMILIES.items()
    ],
)
def test_task__keeps_every_rule_and_is_one_of_envpools_own_pools_per_environment(
    task_id: str, tmp_path: Path
) -> None:
    """In every mode and under every limit; raises at the first difference."""
    log = tmp_path / "log.txt"
    # A file, not a pipe: children that a crash leaves behind would hold a pipe open.
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("envpool_family.py")), task_id],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        code = process.wait(timeout=240)
    except subprocess.TimeoutExpired:
        code = -signal.SIGKILL
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    text = log.read_text(errors="replace")
    assert code == 0, text
    steps = int(text.splitlines()[-1])
    assert steps >= (CASES[task_id].steps if task_id in CASES else 0)
