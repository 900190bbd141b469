"""Cases of every kind run once in tiny sizes; results become tables, and pages have them."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.example_runs import EXAMPLES, run_script

DOCS = EXAMPLES.parent / "docs"

OVERVIEWS = {"summary": "benchmarks", "bars": "bars"}
"""Tables of all sets, and their pages."""

CASES: dict[tuple[str, str], dict[str, Any]] = {
    ("async_pool", "CartPole, 32 of 64 envs at a time"): {},
    ("async_pool", "LunarLander-v3, 2 at a time"): {},
    ("brax", "fast, 256 envs"): {},
    ("cleanrl", "CartPole-v1, 8 envs"): {},
    ("core_limits", "ant, 1,024 envs"): {"name": "fast"},
    ("gpu", "step of CartpoleBalance (Playground, torch policy)"): {},
    ("gradients", "inverted_pendulum, window of 32 steps"): {},
    ("gpu_training", "PPO on ant (gymbridge)"): {},
    ("physics", "humanoid (spring), drawn physics"): {"name": "hopper"},
    ("physics", "inverted_pendulum (spring)"): {},
    ("playground", "CartpoleBalance (jax), 64 envs"): {},
    ("pong", "8 games"): {},
    ("pool_in_jax", "64 CartPoles, SameStep"): {},
    ("sb3", "8 CartPoles"): {},
    ("sb3_training", "CartPole-v1 to 450"): {},
    ("snapshots", "ant (spring), 4,096 envs"): {"name": "fast"},
    ("suites", "jumanji's Game2048"): {},
    ("torch_views", "HalfCheetah-v4, a step"): {},
    ("torch_views", "Pong-v5, rollout of 100 steps"): {},
    ("torch_views", "inverted_pendulum, rollout of 100 steps"): {},
    ("variants", "variants of a step of ant, NextStep"): {},
}
"""Set and name of a case, and another task for it, whose physics compiles sooner."""


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import the harness's modules by name; they are gone after the test."""
    monkeypatch.syspath_prepend(EXAMPLES / "benchmarks")
    before = {*sys.modules}
    yield importlib.import_module
    for name in {*sys.modules} - before:
        if str(EXAMPLES) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("one", "smaller"), CASES.items(), ids=" ".join)
def test_case__has_its_figures(one: tuple[str, str], smaller: dict[str, Any], harness: Any) -> None:
    cases, job = harness("cases"), harness("job")
    case = job.shrink(cases.find_case(*one), cases.QUICK | smaller)
    if one[0] == "pong":
        pytest.importorskip("ale_py")
    found = job.measure(case, 2, "cpu", 2, 1e-3)
    if rates := found.get("steps_per_second"):
        assert all(rate > 0 for rounds in rates.values() for rate in rounds)
        assert found["over"] != []
        assert {name for *pair, _ in found["over"] for name in pair} <= rates.keys()
    else:
        assert found.keys() & {"progress", "trainings"}


@pytest.mark.slow
def test_run__notes_what_fails__and_goes_on(tmp_path: Path) -> None:
    if importlib.util.find_spec("gymnax"):
        pytest.skip("needs a library that is not installed")
    command = ("suites", "threads", "--quick", "--only=CartPole", f"--out={tmp_path}")
    first = run_script("benchmarks/run", *command)
    assert "No module named 'gymnax'" in first.out
    assert "CartPole-v1: one thread over default" in re.sub(r"\s+", " ", first.out)
    files = [tmp_path / "engine" / f"{name}.json" for name in ("suites", "threads")]
    before = [json.loads(file.read_text("utf-8"))["results"] for file in files]
    assert "failed" in before[0][0]
    assert all(len(rounds) == 2 for rounds in before[1][0]["steps_per_second"].values())
    run_script("benchmarks/run", *command)  # all is there
    assert [json.loads(file.read_text("utf-8"))["results"] for file in files] == before
    run_script("benchmarks/run", *command, "--again=failed")
    after = [json.loads(file.read_text("utf-8"))["results"] for file in files]
    assert after[1] == before[1]
    assert len(after[0]) == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_job__ends_when_its_run_is_killed(tmp_path: Path) -> None:
    script, sets = EXAMPLES / "benchmarks" / "run.py", ("threads", "--only=CartPole")
    run = subprocess.Popen([sys.executable, script, *sets, "--rounds=300", f"--out={tmp_path}"])
    while not (job := Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text()):
        assert run.poll() is None
        time.sleep(0.1)
    run.kill()
    run.wait()
    end = time.monotonic() + 60
    try:
        with suppress(FileNotFoundError):
            while Path(f"/proc/{int(job)}/cmdline").read_text():  # empty once it has ended
                assert time.monotonic() < end
                time.sleep(0.1)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(int(job), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.long
def test_routes__have_a_process_each(tmp_path: Path) -> None:
    run_script("benchmarks/run", "infos", "--quick", f"--out={tmp_path}")
    [found] = json.loads((tmp_path / "ways" / "infos.json").read_text("utf-8"))["results"]
    assert found["batch"] == 64
    assert len(found["steps_per_second"]) == 3
    assert all(len(rounds) == 2 for rounds in found["steps_per_second"].values())


def test_every_route__is_of_a_case_and_has_its_sizes(harness: Any) -> None:
    cases, routes = harness("cases"), harness("routes")
    tasks = {
        case.options["task"]
        for one in cases.SETS.values()
        for case in one.cases
        if case.make == "routes:routes_to"
    }
    assert tasks == {*routes.TASKS}
    largest = routes.routes_to(4096, "cpu", task="CartPole-v1").steps
    assert "SyncVectorEnv" in largest
    assert "AsyncVectorEnv" not in largest


def test_pages__have_the_tables_of_the_results(harness: Any) -> None:
    tables, sets = harness("tables"), harness("cases").SETS
    found = {}
    for page in DOCS.rglob("*.md"):
        text = page.read_text("utf-8")
        for name, table in re.findall(r"<!-- table: (\w+) -->\n(.*?)\n<!-- end -->", text, re.S):
            assert page.stem == (sets[name].page if name in sets else OVERVIEWS[name])
            found[name] = table
    shown_as_text = {"variants"}
    assert found.keys() == {*sets, *OVERVIEWS} - shown_as_text
    made = {name: tables.make_table(name, DOCS / "measured") for name in found}
    measured = {name: table for name, table in made.items() if table}
    assert len(measured) > 10
    assert measured == {name: found[name] for name in measured}


def test_figures_of_the_readme__are_those_of_the_summary(harness: Any) -> None:
    rows = harness("tables").summary(DOCS / "measured")[1:]
    speeds = [float(re.match(r"\[([\d.]+) ", row[0])[1]) for row in rows]
    text = (DOCS.parent / "README.md").read_text("utf-8")
    claims = re.findall(r"([\d.]*\d) times as fast", text)
    assert claims
    for claim in claims:
        digits = len(claim.partition(".")[2])
        assert float(claim) in {round(speed, digits) for speed in speeds}, claim


def test_ratios__are_of_medians__and_their_range_of_rounds_or_processes(harness: Any) -> None:
    tables = harness("tables")

    def result(*rounds: float) -> dict[str, Any]:
        speeds = {"ours": [*rounds], "theirs": [1000.0] * len(rounds)}
        over = [["ours", "theirs", 1.5]]
        given = {"case": "a", "value": 2, "axis": "environments", "batch": 2, "note": ""}
        return given | {"steps_per_second": speeds, "over": over}

    row = "a: ours over theirs"
    one = [result(400, 500, 1000)]
    [[_, cells]] = tables.ratios(one)
    assert cells == [row, "4,000.0", "+2,000", "2.00 (1.20 to 2.40)", ""]
    several = [result(500, 500), result(1000, 1000), result(800, 800)]
    [[_, cells]] = tables.ratios(several)
    assert cells[3] == "1.25 (1.00 to 2.00)"


def test_results_of_another_machine__are_kept_apart(tmp_path: Path) -> None:
    file = tmp_path / "engine" / "threads.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"results": [{"machine": "another, 8 cores"}]}), "utf-8")
    found = run_script("benchmarks/run", "threads", "--quick", f"--out={tmp_path}", code=1)
    assert "has results of another machine; give other --out." in found.log
