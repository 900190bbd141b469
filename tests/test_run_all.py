"""The command that runs all benchmarks keeps its file, its order, its limits and its minutes."""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.support.example_runs import EXAMPLES, call_script, load_script, run_script

FOLDER = EXAMPLES / "benchmarks"
CHILD = """
import json, os, pathlib, signal, sys, time

kind, size, out = sys.argv[1:]
with (pathlib.Path(__file__).parent / "calls.txt").open("a") as calls:
    calls.write(f"{kind} {size}\\n")
if kind == "fails":
    raise ValueError("as scripted")
if kind == "is_killed":
    os.kill(os.getpid(), signal.SIGKILL)
if kind == "hangs":
    time.sleep(60)
if kind == "prints":
    print("| a table |")
if kind == "times":
    speeds = {"bare": [10.0, 10.0], "gymbridge, torch, SameStep": [8.0, 8.0]}
    found = {"axis": "environments", "value": int(size), "steps_per_second": speeds}
    found |= {"reference": "bare", "bars": {"gymbridge, torch, SameStep": 1.3}, "note": "alike"}
    pathlib.Path(out).write_text(json.dumps(found | {"machine": "some machine"}))
if kind.startswith("trains"):
    rows = [(100, 2.0, None), (200, 5.0, 4.0)] if "Brax" in kind else [(100, 3.0, 1), (300, 9.0, 5)]
    found = {"library": kind.split()[1], "target": 4, "progress": rows, "machine": "some machine"}
    pathlib.Path(out).write_text(json.dumps(found))
"""


class Runner:
    """`run_all.py` with scripted cases, in this process."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(FOLDER)
        self.module = load_script(FOLDER / "run_all.py")
        monkeypatch.setattr(self.module, "find_device", lambda args: "some device")
        monkeypatch.setattr(self.module, "RESERVE", 0.0)
        self.folder, self.patch = folder, monkeypatch
        (folder / "child.py").write_text(CHILD, encoding="utf-8")

    def case(self, kind: str, **options: Any) -> Any:
        return self.module.Case(
            kind, str(self.folder / "child.py"), (kind, "{size}", "{out}"), **options
        )

    def run(self, cases: list[Any], *flags: str) -> tuple[dict[str, Any], list[str]]:
        """Return the results by task and size, and which cases were called."""
        out, calls = self.folder / "results" / "results.json", self.folder / "calls.txt"
        calls.write_text("", encoding="utf-8")
        self.patch.setattr(self.module, "cases", lambda device: cases)
        self.patch.setattr(sys, "argv", ["run_all.py", f"--out={out}", *flags])
        self.module.main()
        results = json.loads(out.read_text(encoding="utf-8"))["results"] if out.exists() else []
        found = {(result["task"], result["size"]): result for result in results}
        return found, calls.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    return Runner(tmp_path, monkeypatch)


def test_cases__run_once_in_order_and_are_printed_and_drawn(runner, capfd):
    cases = [runner.case("prints"), runner.case("times", sizes=(2, 4096), is_bar=True)]
    found, calls = runner.run(cases)
    assert calls == ["times 4096", "times 2", "prints None"]
    assert found["prints", None]["printed"] == "| a table |\n"
    row = "gymbridge, torch, SameStep over bare"
    printed = capfd.readouterr().out.splitlines()
    start = printed.index(f"| times, 2 envs: {row} | 250,000.0 | 1.25 (1.25 to 1.25) |  | alike |")
    assert printed[start + 1].endswith(
        "| 512,000,000.0 | 1.25 (1.25 to 1.25) | <= 1.30, met | alike |"
    )
    assert "| a table |" in printed
    assert (runner.folder / "results" / "curves_times.svg").exists()
    assert runner.run(cases) == (found, [])


def test_trainings__are_compared_by_their_wall_clock(runner, capfd):
    runner.run([runner.case("trains gymbridge on ant"), runner.case("trains Brax on ant")])
    printed = capfd.readouterr().out.splitlines()
    ours = (
        "| trains gymbridge on ant | 9.0 | 3.0 | 300 | 5 of 4 | 1.80 of Brax's, <= 1.50, missed |"
    )
    assert ours in printed
    assert "| trains Brax on ant | 5.0 | 2.0 | 200 | 4 of 4 |  |" in printed
    assert (runner.folder / "results" / "trainings.svg").exists()


def test_case_that_fails__is_reported_with_its_reason_and_stops_no_other(runner, capfd):
    kinds = ("fails", "is_killed", "hangs", "prints")
    cases = [runner.case(kind, seconds=1 if kind == "hangs" else 60) for kind in kinds]
    found, calls = runner.run(cases)
    reasons = {task: result["failed"] for (task, _), result in found.items() if "failed" in result}
    assert reasons == {
        "fails": "ValueError: as scripted",
        "is_killed": "ended by SIGKILL, as when memory runs out",
        "hangs": "more than 1 s",
    }
    assert "printed" in found["prints", None]
    assert "- fails: ValueError: as scripted" in capfd.readouterr().out.splitlines()
    assert runner.run(cases)[1] == []
    assert runner.run(cases, "--again")[1] == calls[:3]


def test_minutes__are_kept_and_what_did_not_fit_is_listed_and_left_for_the_next_time(runner, capfd):
    cases = [runner.case(kind) for kind in ("prints", "hangs", "fails")]
    start = time.monotonic()
    found, calls = runner.run(cases, "--minutes=0.05")
    assert time.monotonic() - start < 20
    assert list(found) == [("prints", None)]
    assert calls == ["prints None", "hangs None"]
    assert capfd.readouterr().out.split("Not run yet:\n")[1].splitlines()[:2] == [
        "- hangs",
        "- fails",
    ]


def test_flags__choose_cases_and_sizes_up_to_the_largest_of_a_case(runner):
    cases = [runner.case("prints", sizes=(2, 8)), runner.case("fails")]
    _, calls = runner.run(cases, "--only=prints", "--sizes", "4", "16")
    assert calls == ["prints 4"]


def test_compile__runs_timed_cases_beforehand(runner):
    cases = [runner.case("prints"), runner.case("times", sizes=(2, 3))]
    _, calls = runner.run(cases, "--compile=2")
    assert sorted(calls[:2]) == ["times 2", "times 3"]
    assert calls[2:] == ["prints None", "times 2", "times 3"]


def test_results_of_another_device__are_not_mixed(runner):
    runner.run([runner.case("prints")])
    runner.patch.setattr(runner.module, "find_device", lambda args: "another")
    with pytest.raises(SystemExit, match=r"has results of some device; give another --out"):
        runner.run([runner.case("prints")])


def test_device_that_is_not_there__ends_at_once_with_one_line(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    module = load_script(FOLDER / "run_all.py")
    monkeypatch.setattr(module, "PROBE", "print('cpu | False')")  # what it prints here
    monkeypatch.setattr(sys, "argv", ["run_all.py", f"--out={tmp_path}/out.json"])
    with pytest.raises(SystemExit, match=r"^There is no CUDA device: JAX sees cpu \(JAX_PLATFORMS"):
        module.main()
    assert not any(tmp_path.iterdir())


def test_list__has_every_case_of_scripts_that_exist():
    first, *rest = call_script("benchmarks/run_all", "--list", cwd=FOLDER).lines
    assert first == "step of ant (Brax, spring, torch policy), 4,096 envs (at most 180 s)"
    scripts = {line.split(".py")[0] for line in rest if ".py" in line}
    assert scripts
    assert {name for name in scripts if not (FOLDER / f"{name}.py").exists()} == set()


@pytest.mark.slow
def test_cases__run_on_a_cpu(tmp_path):
    out = tmp_path / "results.json"
    flags = ["--device=cpu", "--sizes", "2", "--rounds=1", "--only=^CartPole", f"--out={out}"]
    run_script("benchmarks/run_all", *flags)
    [result] = json.loads(out.read_text(encoding="utf-8"))["results"]
    assert result["steps_per_second"]
    assert len(list(tmp_path.glob("*.svg"))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("library", ["gymbridge", "Brax", "SB3"])
def test_training__runs_on_a_cpu(library, tmp_path, monkeypatch):
    """Of a smaller task than the case has, since most of it is compiling."""
    monkeypatch.syspath_prepend(FOLDER)
    module, out = load_script(FOLDER / "ppo_on_device.py"), tmp_path / "result.json"
    tiny = module.Task("spring", 1e9, 4, 4, 4, 1, 1, 2)
    monkeypatch.setattr(module, "TASKS", {"fast": tiny})
    monkeypatch.setattr(sys, "argv", ["x", library, "--task=fast", "--device=cpu", f"--out={out}"])
    with warnings.catch_warnings():
        module.main()
    logging.disable(logging.NOTSET)
    found = json.loads(out.read_text(encoding="utf-8"))
    assert (found["library"], found["target"]) == (library, 1e9)
    assert [row[0] for row in found["progress"]] == [16, 32]
