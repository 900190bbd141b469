"""Everything public is listed in an `__all__`, exists and is documented."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import gymbridge

ROOT = Path(gymbridge.__file__).parent
ENGINES = ("brax", "envpool", "jax", "torch")
TRAINERS = {
    "sb3": "stable_baselines3",
    "rl_games": "rl_games",
    "rllib": "ray",
    "tianshou": "tianshou",
}
"""What the modules of `gymbridge.trainers` begin with, and the library that they need."""


def module_name(path: Path) -> str:
    parts = [*path.relative_to(ROOT.parent).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FOLDERS = ("core", "gradients", "private", "trainers")
EMPTY = [f"gymbridge.{folder}" for folder in FOLDERS]
"""Packages that offer nothing but their modules."""

MODULES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}

PUBLIC = [
    "BraxVectorEnv",
    "BridgeVectorEnv",
    "EnvPoolVectorEnv",
    "GymbridgeError",
    "JaxEnv",
    "JaxVectorEnv",
    "PlaygroundVectorEnv",
    "__version__",
    "errors",
]


def parse(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def listed(tree: ast.Module) -> list[str]:
    """Return what a module's `__all__` lists."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and _targets(node) == ["__all__"]:
            return list(ast.literal_eval(node.value))
    return []


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def bare_constants(tree: ast.Module) -> set[str]:
    """Return constants without a string below them; ruff sees functions, classes and modules."""
    return {
        name
        for node, after in zip(tree.body, [*tree.body[1:], None], strict=True)
        if isinstance(node, ast.Assign | ast.AnnAssign) and not _is_string(after)
        for name in _targets(node)
    }


def _is_string(node: ast.stmt | None) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def defined(tree: ast.Module) -> set[str]:
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def import_or_skip(name: str) -> object:
    """Return the module; skip the test where what it needs is not installed."""
    for engine in ENGINES:
        if name == "gymbridge" or engine in name.rpartition(".")[2]:
            pytest.importorskip(engine)
    for prefix, library in TRAINERS.items():
        if name.startswith(f"gymbridge.trainers.{prefix}"):
            pytest.importorskip(library)
    return importlib.import_module(name)


def test_package__is_what_users_are_promised() -> None:
    assert gymbridge.__all__ == PUBLIC


@pytest.mark.parametrize("name", [name for name in MODULES if name not in EMPTY])
def test_all__lists_names_that_exist(name: str) -> None:
    names = listed(parse(name))
    assert names
    module = import_or_skip(name)
    assert [one for one in names if not hasattr(module, one)] == []


@pytest.mark.parametrize("name", MODULES)
def test_all__lists_what_is_public_and_documented_constants(name: str) -> None:
    tree = parse(name)
    names = set(listed(tree))
    public = {one for one in defined(tree) if not one.startswith("_")}
    assert public - names == set()
    assert names & bare_constants(tree) == set()


USER_MODULES = (
    "gymbridge",
    "gymbridge.brax",
    "gymbridge.envpool",
    "gymbridge.jax_env",
    "gymbridge.playground",
    "gymbridge.testing",
    "gymbridge.trainers.cleanrl",
    "gymbridge.trainers.rl_games",
    "gymbridge.trainers.rsl_rl",
    "gymbridge.trainers.sb3",
    "gymbridge.trainers.skrl",
    "gymbridge.trainers.tianshou",
    "gymbridge.trainers.torchrl",
    "gymbridge.wrappers",
)
"""Modules that users import."""


def test_api_page__has_every_name_of_the_modules_that_users_import() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    for name in USER_MODULES:
        names = listed(parse(name))
        assert names
        assert [one for one in names if not re.search(rf"\b{one}\b", page)] == [], name
