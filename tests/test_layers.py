"""Imports follow the data, one way: errors <- episode <- backends and requests <- batches."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import gymbridge

ROOT = Path(gymbridge.__file__).parent

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("episode", "spaces"),
    ("backends", "packing", "processes", "requests"),
    ("actions",),
    ("arrays",),
    ("infos", "sub_envs"),
    ("autograd",),
    ("graph",),
    ("vector_env",),
    ("differentiable", "wrappers"),
    ("brax", "envpool", "testing"),
    ("single_env", "registration"),
    ("trainers",),
    ("",),  # the package itself
)
"""Rooms from the bottom up. A room may use those below it, and modules of its own folder."""

BELOW_BACKENDS = {"errors", "episode", "spaces", "backends"}
"""A backend translates and knows nothing of requests, infos or the batch."""

ENGINE_ROOMS = {
    "jax": {
        "autograd",
        "graph",
        "packing",
        "wrappers",
        "arrays.jax",
        "arrays.torch",
        "brax",
        "backends.brax*",
        "testing.scripted_brax",
    },
    "brax": {"brax", "backends.brax*", "testing.scripted_brax"},
    "envpool": {"envpool", "backends.envpool*"},
    "torch": {"autograd", "graph", "arrays.torch", "wrappers"},
    "stable_baselines3": {"trainers.sb3*"},
    "ray": {"trainers.rllib"},
}
"""The only modules that may import an engine, an array library or a trainer."""


def short_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {short_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def imports(name: str) -> set[str]:
    """Return the full names of all that a module imports when it runs, wherever in it."""
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    unseen = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for child in ast.walk(statement)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in unseen:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.update(_from(node))
    return found


def _from(node: ast.ImportFrom) -> set[str]:
    """Return the modules that a ``from`` import names, or the one whose members it takes."""
    module = node.module or ""
    if module == "gymbridge" or module == "gymbridge.backends":
        below = {f"{module}.{alias.name}" for alias in node.names}
        return {name for name in below if name.removeprefix("gymbridge.") in MODULES} or {module}
    return {module}


def room(name: str) -> str:
    return name.split(".")[0]


def layer(name: str) -> int:
    found = [index for index, rooms in enumerate(LAYERS) if room(name) in rooms]
    assert found, f"{name} has no place in LAYERS"
    return found[0]


def own_imports(name: str) -> set[str]:
    """Return the short names of the package's own modules that a module imports."""
    own = {full for full in imports(name) if full.split(".")[0] == "gymbridge"}
    return {full.removeprefix("gymbridge").lstrip(".") for full in own}


def is_allowed(name: str, rooms: set[str]) -> bool:
    prefixes = tuple(one.removesuffix("*") for one in rooms if one.endswith("*"))
    return name in rooms or (bool(prefixes) and name.startswith(prefixes))


@pytest.mark.parametrize("name", MODULES)
def test_module__imports_from_rooms_below_alone(name: str) -> None:
    wrong = {
        other
        for other in own_imports(name)
        if layer(other) >= layer(name) and room(other) != room(name)
    }
    assert wrong == set()


@pytest.mark.parametrize("name", [name for name in MODULES if room(name) == "backends"])
def test_backend__knows_the_seam_alone(name: str) -> None:
    assert {room(other) for other in own_imports(name)} <= BELOW_BACKENDS


@pytest.mark.parametrize("name", [name for name in MODULES if "." in name])
def test_engine__knows_nothing_of_the_other(name: str) -> None:
    engine = name.rpartition(".")[2].split("_")[0]
    others = {other.rpartition(".")[2].split("_")[0] for other in own_imports(name)}
    assert not ({"brax", "envpool"} - {engine}) & others


@pytest.mark.parametrize("name", MODULES)
def test_engine__is_imported_in_its_own_rooms_alone(name: str) -> None:
    packages = {full.split(".")[0] for full in imports(name)}
    for package, rooms in ENGINE_ROOMS.items():
        assert package not in packages or is_allowed(name, rooms), f"{name} imports {package}"


def test_engine_rooms__import_their_engine() -> None:
    assert "brax" in {full.split(".")[0] for full in imports("brax")}
    assert "jax" in imports("backends.brax")
    assert "envpool" in {full.split(".")[0] for full in imports("envpool")}
    assert "stable_baselines3.common.vec_env" in imports("trainers.sb3")


def test_arrows__are_found_where_they_are_known_to_be() -> None:
    assert own_imports("episode") == set()
    assert own_imports("errors") == set()
    assert {"episode", "errors"} <= own_imports("requests")
    assert {"episode", "infos", "requests", "sub_envs"} <= own_imports("vector_env")
    assert {"brax", "envpool", "vector_env"} <= own_imports("single_env")
    assert {"errors", "registration", "requests"} <= own_imports("trainers.cleanrl_envpool")
