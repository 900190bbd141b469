"""Examples in docstrings and in the documentation run as they stand."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import gymbridge

ROOT = Path(__file__).parents[1]
PACKAGE = Path(gymbridge.__file__).parent
ENGINES = ("brax", "envpool")
TRAINERS = {"sb3": "stable_baselines3", "torchrl": "torchrl"}

MODULES = sorted(
    ".".join(("gymbridge", *path.relative_to(PACKAGE).with_suffix("").parts))
    for path in PACKAGE.rglob("*.py")
    if ">>>" in path.read_text(encoding="utf-8")
)


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


def run_page(page: str) -> dict[str, Any]:
    """Run the examples of a page as one script and return its names."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, page, "exec"), names)
    return names


def test_quickstart__runs() -> None:
    pytest.importorskip("envpool")
    assert run_page("quickstart.md")["last_observation"].shape == (4,)


def test_checker_page__runs() -> None:
    assert run_page("checker.md")["report"].truncations


@pytest.mark.filterwarnings("ignore")  # other libraries have warnings of their own
def test_trainers_page__runs() -> None:
    for library in ("envpool", "stable_baselines3", "torchrl", "rsl_rl.env", "skrl"):
        pytest.importorskip(library)
    assert run_page("trainers.md")["env"].reset()[0].shape == (8, 3)


def test_rendering_page__runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for library in ("envpool", "brax", "moviepy"):
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    run_page("rendering.md")
    assert len(list(Path("runs", "videos").glob("*.mp4"))) == 1
    assert "brax-viewer" in Path("pendulum.html").read_text(encoding="utf-8")


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
