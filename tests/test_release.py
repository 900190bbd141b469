"""A release's files agree, and its version stands in one place."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import gymbridge

ROOT = Path(__file__).parents[1]
VERSION = gymbridge.__version__


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_changelog__begins_with_this_version_or_what_comes_after_it() -> None:
    headings = re.findall(r"^## (.+)$", read("CHANGELOG.md"), flags=re.MULTILINE)
    assert headings[headings[0] == "Unreleased"].startswith(VERSION)


def test_version__is_written_in_the_package_and_the_citation_alone() -> None:
    assert f"\nversion: {VERSION}\n" in read("CITATION.cff")
    assert "\nversion = attr: gymbridge.version.__version__\n" in read("setup.cfg")
    for name in ("README.md", "docs/conf.py", "pyproject.toml", "setup.cfg"):
        assert VERSION not in read(name), name


def test_dir__shows_the_public_names_only() -> None:
    assert dir(gymbridge) == sorted(gymbridge.__all__)


def test_wheel__leaves_nothing_in_the_checkout_and_shows_readme_with_whole_links(
    tmp_path: Path,
) -> None:
    """As `pip install .` builds it."""
    checkout = tmp_path / "checkout"
    shutil.copytree(
        ROOT / "gymbridge", checkout / "gymbridge", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("LICENSE", "README.md", "pyproject.toml", "setup.cfg", "setup.py"):
        shutil.copy(ROOT / name, checkout)
    before = sorted(checkout.rglob("*"))
    build = "import setuptools.build_meta, sys; setuptools.build_meta.build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", build, str(tmp_path)]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert sorted(checkout.rglob("*")) == before
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        shown = archive.read(metadata).decode()
    source = "https://github.com/gymbridge/gymbridge"
    assert f"]({source}/raw/main/docs/img/summary.svg)" in shown
    for picture, target in re.findall(r"(!?)\[[^\]]*\]\((.*?)\)", shown):
        assert target.startswith("https://")
        if target.startswith(source):
            folder = f"{source}/{'raw' if picture else 'blob'}/main/"
            assert target.startswith(folder)
            assert (ROOT / target.removeprefix(folder).partition("#")[0]).exists(), target


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_bibtex__has_the_title_and_the_address_of_the_citation(page: str) -> None:
    (entry,) = re.findall(r"```bibtex\n(.*?)```", read(page), re.DOTALL)
    for key, field in (("title", "title"), ("repository-code", "url")):
        (value,) = re.findall(rf'^{key}: "(.*)"$', read("CITATION.cff"), re.MULTILINE)
        assert f"\n  {field} = {{{value}}},\n" in entry
