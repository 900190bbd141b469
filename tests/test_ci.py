"""`.ci/choose_tests.py` knows every part of the package, and leaves out nothing for long."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.example_runs import load_script

ROOT = Path(__file__).parents[1]

script: Any = load_script(ROOT / ".ci" / "choose_tests.py")


def test_table__has_every_module_and_every_unit_and_names_what_exists() -> None:
    for file in (ROOT / "gymbridge").rglob("*.py"):
        path = str(file.relative_to(ROOT))
        assert any(path.startswith(start) for start in script.BELONGS), path
    names = " ".join(script.BELONGS.values()).split()
    for name in names:
        assert name in script.LEGS or (ROOT / name).exists()
    of_all = {f"tests/test_{name}.py" for name in ("ci", "gpu_runs", "system_libraries")}
    for unit in {*script.list_units()} - of_all:
        assert any(f"{unit}/".startswith(f"{name}/") for name in names), unit
    for path in re.findall(r"tests/[\w/]+\.py", (ROOT / ".ci" / "run").read_text("utf-8")):
        assert (ROOT / path).exists()


def test_choose__takes_what_belongs_to_a_change_and_all_in_five_runs() -> None:
    units = script.list_units()
    runs = [script.choose(units, ["gymbridge/trainers/skrl.py"], count) for count in range(5)]
    for chosen in runs:
        assert {unit for unit in units if unit.startswith("tests/trainers/")} <= {*chosen}
        assert len(chosen) < len(units) / 2
    assert {unit for chosen in runs for unit in chosen} == {*units}


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("tests/envpool/test_seeds.py", "tests/envpool/test_families.py"),
        ("tests/support/envpool_family.py", "tests/envpool/test_families.py"),
        ("tests/support/player.py", "tests/envpool/test_families.py"),  # by way of `envpool_family`
        ("tests/support/walks.py", "tests/checker/test_environments.py"),
        ("tests/support/gpu_work.py", "gpu"),
        ("gymbridge/trainers/rllib.py", "gymnasium"),
        ("gymbridge/core/arrays/torch.py", "gpu"),
        ("examples/engines/mjlab_env.py", "mjlab"),
        ("gymbridge/trainers/tianshou.py", "trainers"),
        ("tests/support/cartpole.py", "trainers"),  # by way of the tests that import it
        (".ci/run", "wheel"),
        ("setup.cfg", "tests/brax/test_oracle.py"),
    ],
)
def test_choose__finds_what_a_file_needs(path: str, unit: str) -> None:
    assert all(unit in script.choose(script.list_units(), [path], count) for count in range(5))


def test_script__needs_git_s_history(tmp_path: Path) -> None:
    def run(*command: str) -> list[str]:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.split()

    def commit() -> None:
        run("git", "add", "-A")
        run("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "a change")

    for name in (".ci", *(f"tests/{name}" for name in "abcdef")):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "choose_tests.py", tmp_path / ".ci")
    for name in "abcdef":
        (tmp_path / "tests" / name / "test_it.py").write_text("slow = 1\n")
    choose = sys.executable, ".ci/choose_tests.py"
    assert len(run(*choose)) == 6 + len(script.LEGS)
    run("git", "init", "-q")
    commit()
    (tmp_path / ".ci" / "full-run").write_text(run("git", "rev-parse", "HEAD")[0])
    assert run(*choose) == ["tests/b/test_it.py", "gpu"]
    (tmp_path / "tests" / "a" / "test_it.py").write_text("slow = 2\n")
    (tmp_path / "tests" / "d" / "test_new.py").write_text("\n")
    wanted = ["tests/a/test_it.py", "tests/b/test_it.py", "tests/d/test_it.py", "gpu"]
    assert run(*choose) == wanted
    commit()
    assert run(*choose) == [
        "tests/a/test_it.py",
        "tests/c/test_it.py",
        "tests/d/test_it.py",
        "wheel",
    ]
    assert len(run(*choose, "full")) == 6 + len(script.LEGS)
    (tmp_path / ".ci" / "full-run").write_text("0" * 40)
    assert len(run(*choose)) == 6 + len(script.LEGS)
