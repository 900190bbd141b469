"""The table of `docs/reference/reproducibility.md`, and the runs that prove its entries.

Physics compiles for long, so differences are tested together: a run that is equal to the reference
with several of them is so with each.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from tests.support.batches import make_batch
from tests.support.episode_runs import Episodes, compare, episodes, episodes_elsewhere

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "reproducibility.md"

BATCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "EnvPool": ("half_cheetah", {"limit": 4}),
    "spring": ("inverted_pendulum", {"limit": 4}),
    "generalized": ("inverted_pendulum", {"limit": 4, "backend": "generalized"}),
    "MJX": ("playground", {"limit": 4}),
}
"""Name and options of a batch for each column."""

BRAX = ("spring", "generalized")
"""Columns with a file of tests of their own, which another process runs."""

Differences = dict[str, dict[str, Any]]

HERE: tuple[Differences, ...] = (
    {
        "another process": {},
        "a pickled batch": {},
        '`arrays="torch"`': {"arrays": "torch"},
    },
    {
        "the same batch, reset again": {},
        "another batch": {},
        "JAX's compilation cache off": {},  # of the reference: here the batch above filled it
        '`arrays="jax"`': {"arrays": "jax"},
    },
    {
        '`autoreset_mode="Disabled"`': {"mode": "Disabled", "arrays": "torch"},
        "`differentiable=True`": {"differentiable": True},
        "`num_threads=3`": {"num_threads": 3},
    },
)
"""Rows that are tested together in this process, and the options of each."""

ELSEWHERE: Differences = {
    '`autoreset_mode="SameStep"`': {"mode": "SameStep"},
    "more environments": {"num_envs": 8},
    "two devices": {"device": ["cpu:0", "cpu:1"]},
}
"""Those tested together in the reference's process."""

STEPS = 16
DIGITS = {"bits": 0, "rounding": 1e-4}


class Differentiated:
    """A batch whose actions have gradients."""

    def __init__(self, envs: Any) -> None:
        self.envs = envs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.envs, name)

    def step(self, actions: Any) -> Any:
        self.envs.detach()
        return self.envs.step(actions.requires_grad_())


def play(name: str, **options: Any) -> Episodes:
    """Return the second run of a pickled batch."""
    envs = pickle.loads(pickle.dumps(make_batch(name, **options)))
    if options.get("differentiable"):
        envs = Differentiated(envs)
    episodes(envs, STEPS)
    return episodes(envs, STEPS)


def read_table() -> dict[tuple[str, str], str]:
    """Return the entries of the page's first table by row and column."""
    lines = PAGE.read_text(encoding="utf-8").partition("\n## ")[0].splitlines()
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    (_, *columns), _, *rows = table
    return {
        (title, column): cell
        for title, *cells in rows
        for column, cell in zip(columns, cells, strict=True)
    }


TABLE = read_table()


def check_column(column: str) -> None:
    """Raise unless the runs of a column are equal where the table says so."""
    name, options = BATCHES[column]

    def change(differences: Differences) -> dict[str, Any]:
        changed = dict(options)
        for row, changes in differences.items():
            changed |= changes if TABLE[row, column] else {}
        return changed

    def check(found: Episodes, differences: Differences) -> None:
        print(*differences)
        (cell,) = {TABLE[row, column] for row in differences} - {""}
        compare(found[:4], reference, complete=2, digits=DIGITS[cell])

    reference, other = episodes_elsewhere(
        [(name, options), (name, change(ELSEWHERE))],
        STEPS,
        JAX_ENABLE_COMPILATION_CACHE="0",
    )
    check(other, ELSEWHERE)
    for differences in HERE:
        check(play(name, **change(differences)), differences)
