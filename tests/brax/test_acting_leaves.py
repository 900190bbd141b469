"""The page on domain randomisation has the leaves of hopper's model that act in each backend."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from gymbridge import BraxVectorEnv
from gymbridge.private.jax import used_inputs

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "domain-randomization.md"
BACKENDS = ("spring", "positional", "generalized", "mjx")


def acting_leaves(env: Any) -> dict[str, bool]:
    """Return the float leaves that `reset` or `step` of `env` reads, and whether `step` does."""
    model = env.sys
    named, structure = jax.tree_util.tree_flatten_with_path(model)
    leaves = {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in named}
    floats = {name: leaf for name, leaf in leaves.items() if is_float(leaf)}

    def run(function: Callable[..., Any], physics: dict[str, jax.Array], *args: Any) -> Any:
        env.sys = jax.tree.unflatten(structure, (leaves | physics).values())
        try:
            return function(*args)
        finally:
            env.sys = model

    key, action = jax.random.PRNGKey(0), jnp.zeros(env.action_size)
    in_reset = used_inputs(partial(run, env.reset), floats, key)[0]
    state = jax.eval_shape(env.reset, key)
    in_step = used_inputs(partial(run, env.step), floats, state, action)[0]
    return {name: in_step[name] for name in floats if in_reset[name] or in_step[name]}


def is_float(leaf: Any) -> bool:
    return jnp.size(leaf) > 0 and jnp.issubdtype(jnp.result_type(leaf), jnp.floating)


def to_table(found: dict[str, tuple[str, ...]]) -> list[str]:
    """Return one line for each set of backends, with the leaves that act in exactly these."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, backends in sorted(found.items()):
        groups[backends].append(f"`{name}`")
    rows = sorted(groups.items(), key=lambda row: (-len(row[0]), row[0]))
    lines = [f"| {', '.join(backends)} | {', '.join(names)} |" for backends, names in rows]
    return ["| backend | leaves |", "|---|---|", *lines]


@pytest.mark.slow
def test_page__has_the_leaves_that_act() -> None:
    page, acting = PAGE.read_text("utf-8"), defaultdict[str, tuple[str, ...]](tuple)
    for backend in BACKENDS:
        env = BraxVectorEnv("hopper", backend=backend).get_attr("unwrapped")[0]
        for name, is_in_step in acting_leaves(env.unwrapped).items():
            acting[name] += (backend + "*" * (not is_in_step),)  # a star: only `reset` reads it
    table = page.split("<!-- leaves of hopper -->")[1].strip().split("\n\n")[0]
    assert table.splitlines() == to_table(acting)
    text = page.split("## Which leaves act")[1]
    header, _, *rows = text.strip().split("\n\n")[1].splitlines()
    for row in rows:
        for backends, cell in zip(header.split("|")[2:-1], row.split("|")[2:-1], strict=True):
            for name in re.findall(r"`([^`]+)`", cell):
                found = [backend.rstrip("*") for backend in acting[name]]
                named = [name.strip() for name in backends.split(",") if "Playground" not in name]
                assert set(named) <= set(found), name
