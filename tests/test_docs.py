"""Examples in docstrings and in the documentation run as they stand."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gymbridge

ROOT = Path(__file__).parents[1]
PACKAGE = Path(gymbridge.__file__).parent
ENGINES = ("brax", "envpool")
TRAINERS = {"sb3": "stable_baselines3"}

MODULES = sorted(
    ".".join(("gymbridge", *path.relative_to(PACKAGE).with_suffix("").parts))
    for path in PACKAGE.rglob("*.py")
    if ">>>" in path.read_text(encoding="utf-8")
)


def test_docstrings__have_examples() -> None:
    assert "gymbridge.core.vector_env" in MODULES
    assert "gymbridge.testing.scripted" in MODULES


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples__print_what_they_say(name: str) -> None:
    for engine in ENGINES:
        if name.split(".")[-1].startswith(engine) and "tasks" not in name:
            pytest.importorskip(engine)
    for prefix, library in TRAINERS.items():
        if name.startswith(f"gymbridge.trainers.{prefix}"):
            pytest.importorskip(library)
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


def test_quickstart__runs(tmp_path: Path) -> None:
    pytest.importorskip("envpool")
    text = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 1
    script = tmp_path / "quickstart.py"
    script.write_text(blocks[0] + "\nprint(last_observation)\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[")


def test_trainers_page__runs(tmp_path: Path) -> None:
    pytest.importorskip("envpool")
    for library in ("stable_baselines3", "torchrl", "skrl"):
        pytest.importorskip(library)
    text = (ROOT / "docs" / "trainers.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 2
    script = tmp_path / "trainers.py"
    script.write_text("\n".join([*blocks, "print(env.reset()[0].shape)"]), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("torch.Size([8, 3])\n")


def test_readme__has_exactly_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 2
    assert all(block.count("\n") == 1 and "-c constraints.txt" in block for block in blocks)


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CONTRIBUTING.md",
        *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md"))),
    ],
)
def test_page__links_to_files_that_exist(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), target
