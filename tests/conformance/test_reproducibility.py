"""The table of `docs/reference/reproducibility.md`: each entry is a test.

Its id is its row and column.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from batches import make_batch, shared_batch
from episode_runs import Episodes, compare, episodes, episodes_elsewhere

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "reproducibility.md"

BATCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "EnvPool": ("half_cheetah", {"limit": 4}),
    "spring": ("inverted_pendulum", {"limit": 4, "backend": "spring"}),
    "generalized": ("inverted_pendulum", {"limit": 4}),
    "mjx": ("inverted_pendulum", {"limit": 4, "backend": "mjx"}),
    "Playground": ("playground", {"limit": 4}),
}
"""Name and options of a batch for each column."""

STEPS = 16
ROUNDING = 1e-4


def again(name: str, **options: Any) -> Episodes:
    return episodes(shared_batch(name, **options), STEPS)


def anew(name: str, **options: Any) -> Episodes:
    return episodes(make_batch(name, **options), STEPS)


def pickled(name: str, **options: Any) -> Episodes:
    return episodes(pickle.loads(pickle.dumps(shared_batch(name, **options))), STEPS)


def elsewhere(name: str, **options: Any) -> Episodes:
    [found] = episodes_elsewhere([(name, options)], STEPS)
    return found


def without_cache(name: str, **options: Any) -> Episodes:
    [found] = episodes_elsewhere([(name, options)], STEPS, JAX_ENABLE_COMPILATION_CACHE="0")
    return found


def on_two_devices(name: str, **options: Any) -> Episodes:
    batch = (name, {**options, "device": ["cpu:0", "cpu:1"]})
    [found] = episodes_elsewhere(
        [batch], STEPS, XLA_FLAGS="--xla_force_host_platform_device_count=2"
    )
    return found


def with_(**changes: Any) -> Callable[..., Episodes]:
    return lambda name, **options: again(name, **options | changes)[:4]


class Differentiated:
    """A batch whose actions have gradients."""

    def __init__(self, envs: Any) -> None:
        self.envs = envs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.envs, name)

    def step(self, actions: Any) -> Any:
        self.envs.detach()
        return self.envs.step(actions.requires_grad_())


def differentiated(name: str, **options: Any) -> Episodes:
    options |= {"arrays": "torch", "differentiable": True}
    return episodes(Differentiated(shared_batch(name, **options)), STEPS)


ROWS: dict[str, Callable[..., Episodes]] = {
    "the same batch, reset again": again,
    "another batch": anew,
    "a pickled batch": pickled,
    "another process": elsewhere,
    "JAX's compilation cache off": without_cache,
    '`arrays="torch"`': with_(arrays="torch"),
    '`arrays="jax"`': with_(arrays="jax"),
    '`autoreset_mode="SameStep"`': with_(mode="SameStep"),
    '`autoreset_mode="Disabled"`': with_(mode="Disabled"),
    "more environments": with_(num_envs=8),
    "two devices": on_two_devices,
    "`differentiable=True`": differentiated,
    "`num_threads=3`": with_(num_threads=3),
}
"""What differs from the reference, by the title of its row."""


def read_table() -> dict[tuple[str, str], str]:
    """Return the entries of the page's table by row and column."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    (_, *columns), _, *rows = table
    return {
        (title, column): cell
        for title, *cells in rows
        for column, cell in zip(columns, cells, strict=True)
    }


def make_id(entry: str) -> str:
    """Return a row or column without the signs that pytest's command line would read."""
    return re.sub(r"\W+", " ", entry).strip()


TABLE = read_table()


@cache
def reference(column: str) -> Episodes:
    name, options = BATCHES[column]
    return again(name, **options)


def test_table__has_a_test_for_each_entry() -> None:
    assert [*dict.fromkeys(row for row, _ in TABLE)] == [*ROWS]
    assert [*dict.fromkeys(column for _, column in TABLE)] == [*BATCHES]
    assert {*TABLE.values()} == {"bits", "rounding", ""}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "column"), [key for key, cell in TABLE.items() if cell], ids=make_id
)
def test_run__is_reproduced(row: str, column: str) -> None:
    name, options = BATCHES[column]
    digits = {"bits": 0, "rounding": ROUNDING}[TABLE[row, column]]
    compare(ROWS[row](name, **options), reference(column), complete=2, digits=digits)
