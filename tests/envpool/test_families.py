"""Tasks of every family that EnvPool builds, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

pytest.importorskip("envpool")

from gymbridge.envpool.tasks import load_tasks
from tests.support.envpool_family import RULES, run
from tests.support.envpool_oracle import CASES

pytestmark = [pytest.mark.slow, pytest.mark.long]

FAMILIES = {task_id: case.family for task_id, case in CASES.items()}
FAMILIES |= {task_id: family for family, task_ids in RULES.items() for task_id in task_ids}


def test_families__are_all_tested_and_in_30000_steps_of_the_oracle() -> None:
    tasks = load_tasks()
    families = {
        task["family"]
        for task in tasks.values()
        if task["max_num_players"] == 1 and "since" not in task
    }
    assert {*RULES} == {case.family for case in CASES.values()} == families
    assert {task_id: tasks[task_id]["family"] for task_id in FAMILIES} == FAMILIES
    assert sum(case.steps for case in CASES.values()) > 30_000


@pytest.fixture(scope="module")
def processes() -> Iterator[ForkServerContext]:
    """Processes that are forked after the imports, which take as long as most tasks."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.envpool_family"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        forkserver.ensure_running()
    yield context
    context.set_forkserver_preload(["__main__"])


@pytest.mark.parametrize(
    "task_id",
    [
        pytest.param(task_id, marks=[pytest.mark.needs_qt5] if family == "procgen" else [])
        for task_id, family in FAMILIES.items()
    ],
)
def test_task__keeps_every_rule_and_is_one_of_envpools_own_pools_per_environment(
    task_id: str, tmp_path: Path, processes: ForkServerContext
) -> None:
    """In every mode and under every limit; raises at the first difference."""
    log = tmp_path / "log.txt"
    process = processes.Process(target=run, args=(task_id, log))
    process.start()
    group = process.pid or pytest.fail("no process was started")
    try:
        process.join(timeout=240)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        process.join()
    text = log.read_text(errors="replace")
    assert process.exitcode == 0, text
    steps = int(text.splitlines()[-1])
    assert steps >= (CASES[task_id].steps if task_id in CASES else 0)
