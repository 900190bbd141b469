"""Examples in docstrings, in the documentation and in the README run as they stand."""

from __future__ import annotations

import ast
import configparser
import doctest
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import gymbridge
from gymbridge.errors import NotInstalledError

ROOT = Path(__file__).parents[1]
PACKAGE = Path(gymbridge.__file__).parent
ENGINES = ("brax", "envpool")
TRAINERS = {"sb3": "stable_baselines3", "torchrl": "torchrl"}

MODULES = sorted(
    ".".join(("gymbridge", *path.relative_to(PACKAGE).with_suffix("").parts))
    for path in PACKAGE.rglob("*.py")
    if ">>>" in path.read_text(encoding="utf-8")
)

PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    )
}

BLOCK = re.compile(r"^(% slow\n|<!-- slow -->\n)?```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
"""Code of a page, behind a comment where it takes more than some seconds."""


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


def code_blocks() -> list[Any]:
    """Return each block of each page as a test case, which is named by its page and line."""
    blocks = []
    for page, text in PAGES.items():
        for found in BLOCK.finditer(text):
            line = text.count("\n", 0, found.start(2))
            marks = [pytest.mark.slow] if found[1] else []
            blocks.append(
                pytest.param(page, line, found[2], marks=marks, id=f"{page}:{line}")
            )
    return blocks


def skip_without_imports(code: str) -> None:
    for node in ast.walk(ast.parse(code)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        for name in names:
            try:
                pytest.importorskip(name, exc_type=ImportError)
            except NotInstalledError as error:
                pytest.skip(str(error))


@pytest.mark.filterwarnings("ignore")  # other libraries have warnings of their own
@pytest.mark.parametrize(("page", "line", "code"), code_blocks())
def test_code_block__runs(
    page: str, line: int, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without_imports(code)
    monkeypatch.chdir(tmp_path)
    try:
        exec(compile("\n" * line + code, page, "exec"), {"__name__": "page"})
    except NotInstalledError as error:
        pytest.skip(str(error))


def test_code_blocks__are_found() -> None:
    found = sum(text.count("```python") for text in PAGES.values())
    assert len(code_blocks()) == found > 30


def test_commands__name_scripts_and_extras_that_exist() -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    for page, text in PAGES.items():
        for script in re.findall(r"\bpython (examples/\S+\.py|docs/\S+\.py)", text):
            assert (ROOT / script).exists(), (page, script)
        for extras in re.findall(r"'\.\[([\w,]+)\]'", text):
            assert {*extras.split(",")} <= {*settings["options.extras_require"]}, (page, extras)


def test_readme__has_exactly_two_commands() -> None:
    blocks = re.findall(r"```bash\n(.*?)```", PAGES["README.md"], flags=re.DOTALL)
    assert len(blocks) == 2
    assert all(block.count("\n") == 1 and "-c constraints.txt" in block for block in blocks)


@pytest.mark.parametrize("page", PAGES)
def test_page__links_to_files_that_exist(page: str) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", PAGES[page]):
        if not target.startswith("http"):
            assert ((ROOT / page).parent / target).exists(), target
