"""Imports go one way: errors <- core <- jax_env <- gradients <- jax_vector_env <- engines in JAX.

All imports count: those inside functions, those under ``TYPE_CHECKING``, and those within a folder.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import gymbridge
from gymbridge.engines import ENGINES

ROOT = Path(gymbridge.__file__).parent

FOLDERS = {engine.vector_entry_point.partition(":")[0].split(".")[1] for engine in ENGINES.values()}
"""The rooms of the engines that have ids."""

MAY_USE: dict[str, set[str]] = {
    "errors": set(),
    "private": {"errors"},
    "core": {"errors", "private"},
    "jax_env": {"core", "errors", "private", "version"},
    "gradients": {"core", "errors", "jax_env", "private"},
    "jax_vector_env": {"core", "errors", "gradients", "jax_env", "private"},
    # An engine may also be outside of JAX, but none imports another.
    **{name: {"core", "errors", "jax_env", "jax_vector_env", "private"} for name in FOLDERS},
    "envpool": {"core", "errors", "private"},
    "__main__": {"command_line"},
    "command_line": {"", "core", "engines", "errors", "testing", "trainers"},
    "testing": {"core", "errors", "private"},
    "wrappers": {"core", "errors"},
    "engines": FOLDERS,
    "single_env": {"core", "engines", "errors"},
    "trainers": {"core", "engines", "errors", "private", "wrappers"},
    # The package itself:
    "": {"core", "engines", "errors", "jax_env", "jax_vector_env", "version"} | FOLDERS,
    "version": set(),
}
"""Which rooms a room may use besides its own modules."""

ENGINE_ROOMS = {
    "jax": {
        "brax.*",
        "command_line.info",
        "core.arrays.jax",
        "core.arrays.jax_devices",
        "core.arrays.torch",
        "envpool.functions",
        "gradients.*",
        "jax_env.*",
        "jax_vector_env",
        "playground.warp",
        "private.jax",
        "private.mjx",
        "private.playground",
        "wrappers.libraries",
    },
    "brax": {"jax_env.viewer", "private.brax"},
    "mujoco_playground": {"playground.building", "playground.warp", "private.playground"},
    "envpool": {"envpool.*", "private.envpool"},
    "torch": {
        "command_line.info",
        "command_line.policies",
        "core.arrays.torch",
        "gradients.*",
        "jax_vector_env",
        "private.tensordict",
        "private.torch",
        "trainers.rl_games",
        "trainers.rsl_rl",
        "trainers.skrl",
        "trainers.torchrl*",
        "wrappers.libraries",
    },
    "stable_baselines3": {"trainers.sb3*"},
    "ray": {"trainers.rllib"},
    "rl_games": {"trainers.rl_games"},
    "rsl_rl": {"trainers.rsl_rl"},
    "skrl": {"trainers.skrl"},
    "tensordict": {"private.tensordict", "trainers.rsl_rl", "trainers.torchrl*"},
    "tianshou": {"trainers.tianshou"},
    "torchrl": {"trainers.torchrl*"},
}
"""The only modules that may import an engine, an array library or a trainer."""


def short_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {short_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def imports(name: str) -> set[str]:
    """Return the full names of all that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.update(_from(node))
    return found


def _from(node: ast.ImportFrom) -> set[str]:
    """Return the modules that a ``from`` import names, or the one whose members it takes."""
    module = node.module or ""
    below = {f"{module}.{alias.name}" for alias in node.names}
    return {name for name in below if name.removeprefix("gymbridge.") in MODULES} or {module}


def room(name: str) -> str:
    return name.split(".")[0]


def own_imports(name: str) -> set[str]:
    """Return the short names of the package's own modules that a module imports."""
    own = {full for full in imports(name) if full.split(".")[0] == "gymbridge"}
    return {full.removeprefix("gymbridge").lstrip(".") for full in own}


def has_own_statements(path: Path) -> bool:
    """Return whether a module holds more than a docstring, imports and ``__all__``."""
    _, *nodes = ast.parse(path.read_text(encoding="utf-8")).body
    own = [node for node in nodes if not isinstance(node, ast.Import | ast.ImportFrom)]
    return any(not ast.unparse(node).startswith("__all__") for node in own)


def is_allowed(name: str, rooms: set[str]) -> bool:
    prefixes = tuple(one.removesuffix("*") for one in rooms if one.endswith("*"))
    return name in rooms or (bool(prefixes) and name.startswith(prefixes))


@pytest.mark.parametrize("name", MODULES)
def test_module__imports_from_the_rooms_that_it_may_use(name: str) -> None:
    used = {room(other) for other in own_imports(name)} - {room(name)}
    assert used <= MAY_USE[room(name)]


def test_module__is_no_second_path_to_names_of_another() -> None:
    """Packages may gather names; any other module has something of its own."""
    modules = {name: path for name, path in MODULES.items() if path.name != "__init__.py"}
    assert [name for name, path in modules.items() if not has_own_statements(path)] == []


def test_modules__import_one_another_in_no_circle() -> None:
    graph = {name: own_imports(name) - {name} for name in MODULES}
    order = [*TopologicalSorter(graph).static_order()]  # raises CycleError
    assert order.index("errors") < order.index("core.episode") < order.index("brax.vector_env")


@pytest.mark.parametrize("name", MODULES)
def test_engine__is_imported_in_its_own_rooms_alone(name: str) -> None:
    packages = {full.split(".")[0] for full in imports(name)}
    for package, rooms in ENGINE_ROOMS.items():
        assert package not in packages or is_allowed(name, rooms), f"{name} imports {package}"


def test_private_names_of_libraries__are_used_where_design_md_says() -> None:
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
    nodes = {name: [*ast.walk(tree)] for name, tree in trees.items()}
    own = {"_asdict", "_fields", "_replace"}.union(*map(_own_names, nodes.values()))
    found = {
        name
        for name, inside in nodes.items()
        for node in inside
        for attribute in _read_attributes(node)
        if attribute[:1] == "_" and attribute[1:2] != "_" and attribute not in own
    }
    own_modules = {name for name in found if room(name) == "private"}
    assert found - own_modules == {"core.processes", "trainers.sb3.vec_env"}


def _read_attributes(node: ast.AST) -> Iterator[str]:
    """Yield the name that an attribute or a call of `getattr` reads."""
    if isinstance(node, ast.Attribute):
        yield node.attr
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
        name = node.args[1]
        yield from name.value.split(".") if isinstance(name, ast.Constant) else ()


def _own_names(nodes: list[ast.AST]) -> set[str]:
    """Return the names that a module defines, or assigns in itself or in its objects."""
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    stored = [node for node in nodes if isinstance(getattr(node, "ctx", None), ast.Store)]
    for node in stored:
        if isinstance(node, ast.Name):
            defined.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            defined.add(node.attr)
    return defined


def test_arrows__are_found_where_they_are_known_to_be() -> None:
    assert own_imports("core.episode") == own_imports("errors") == set()
    assert {"core.episode", "core.runner", "core.requests"} <= own_imports("core.vector_env")
    assert "brax" in {full.split(".")[0] for full in imports("private.brax")}
    assert "stable_baselines3.common.vec_env" in imports("trainers.sb3")
