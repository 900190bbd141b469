"""`.ci/choose_tests.py` knows every part of the package, and leaves out nothing for long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.example_runs import load_script

ROOT = Path(__file__).parents[1]

script: Any = load_script(ROOT / ".ci" / "choose_tests.py")


def test_table__has_every_module_and_names_what_exists() -> None:
    for file in (ROOT / "gymbridge").rglob("*.py"):
        path = str(file.relative_to(ROOT))
        assert any(path.startswith(start) for start in script.BELONGS), path
    for name in " ".join(script.BELONGS.values()).split():
        assert name in script.LEGS or (ROOT / name).exists()


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
        ("tests/envpool/test_families.py", "tests/envpool/test_families.py"),
        ("tests/support/envpool_family.py", "tests/envpool/test_families.py"),
        ("gymbridge/trainers/rllib.py", "gymnasium"),
        ("gymbridge/core/arrays/torch.py", "gpu"),
        ("setup.cfg", "wheel"),
    ],
)
def test_choose__finds_what_a_file_needs(path: str, unit: str) -> None:
    assert all(unit in script.choose(script.list_units(), [path], count) for count in range(5))
