"""Where the meshes of robots are looked for, on folders of this test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gymbridge.core.extras import install_command
from gymbridge.errors import NotInstalledError
from gymbridge.playground import meshes
from gymbridge.playground.meshes import find_menagerie

PLACES = ("own", "root", "cache", "wheel")
"""In the order in which they are tried."""


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all places, none of which has a mesh; the wheel is a package on the path."""
    monkeypatch.setenv("MENAGERIE_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("MENAGERIE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(meshes, "_WHEELS", ("no_such_package", "assets_of_this_test"))
    monkeypatch.setattr(meshes, "_IN_WHEEL", "meshes")
    monkeypatch.syspath_prepend(tmp_path / "wheel")
    return tmp_path


def put(root: Path, place: str, robot: str, digest: str = "0123456789abcdef") -> Path:
    """Write a robot's folder into one of the places."""
    folder = {
        "own": root / "own" / robot,
        "root": root / "root" / robot,
        "cache": root / "cache" / "models" / f"{robot}-{digest}",
        "wheel": root / "wheel" / "assets_of_this_test" / "meshes" / robot,
    }[place]
    folder.mkdir(parents=True)
    (folder / ".complete").touch()
    if place == "wheel":
        (folder.parents[1] / "__init__.py").touch()
    return folder


def files(root: Path) -> set[Path]:
    return set(root.rglob("*"))


def test_folder__is_that_of_the_first_place_that_has_it(root: Path) -> None:
    """Each robot is in one place less than the one before it."""
    wanted = {}
    for index, first in enumerate(PLACES):
        folders = [put(root, place, f"my_{first}") for place in PLACES[index:]]
        wanted[f"my_{first}"] = folders[0]
    with find_menagerie("Mine", wanted, root / "own") as found:
        assert {name: (found / name).resolve() for name in wanted} == wanted


def test_own_folder__is_taken_as_it_is_if_it_has_all(root: Path) -> None:
    for place in PLACES:
        put(root, place, "go1")
    before = files(root)
    for needed in (["go1"], []):
        with find_menagerie("Go1", needed, root / "own") as found:
            assert found == root / "own"
    assert files(root) == before


def test_links__are_gone_after_the_block(root: Path) -> None:
    folder = put(root, "wheel", "go1")
    before = files(root)
    with find_menagerie("Go1", ["go1"], root / "own") as found:
        assert (found / "go1").resolve() == folder
        assert files(root) == before
    assert folder.is_dir()
    assert not found.exists()


def test_unknown_needs__are_all_that_is_found(root: Path) -> None:
    put(root, "wheel", "go1")
    put(root, "cache", "g1")
    with find_menagerie("Mine", [], root / "own") as found:
        assert {path.name for path in found.iterdir()} == {"go1", "g1"}


def test_cache__gives_the_newest_that_is_complete(root: Path) -> None:
    folders = [put(root, "cache", "unitree_go1", digest) for digest in ("c" * 16, "b" * 16)]
    for seconds, folder in enumerate(folders):
        os.utime(folder / ".complete", (seconds, seconds))
    (put(root, "cache", "unitree_go1", "a" * 16) / ".complete").unlink()
    with find_menagerie("Go1", ["unitree_go1"], root / "own") as found:
        assert (found / "unitree_go1").resolve() == folders[-1]


def test_relative_root__is_read_from_the_working_directory(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put(root, "root", "go1")
    monkeypatch.chdir(root)
    monkeypatch.setenv("MENAGERIE_ROOT", "root")
    with find_menagerie("Go1", ["go1"], root / "own") as found:
        monkeypatch.chdir("/")
        assert (found / "go1").resolve() == folder


@pytest.mark.parametrize("needed", [["arm", "hand"], []])
def test_missing_folder__is_an_error_with_the_command(root: Path, needed: list[str]) -> None:
    if needed:
        put(root, "wheel", "arm")
    before = files(root)
    with pytest.raises(NotInstalledError, match=r"^'Mine' needs the meshes") as caught:
        find_menagerie("Mine", needed, root / "own").__enter__()
    assert ("(arm, hand)" in str(caught.value)) == bool(needed)
    assert install_command("robots") in str(caught.value)
    assert files(root) == before
