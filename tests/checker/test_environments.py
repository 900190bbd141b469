"""What the checker says of our environments, of Gymnasium's, and of EnvPool's own class."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.vector import AsyncVectorEnv

from gymbridge.testing import Report, check_vector_env
from tests.support.batches import Cell, cells, make_batch
from tests.support.walks import BROKEN_BY_SYNC, Walk, ids, make_walks

NO_ID = {"limit-kept", "spec", "truncated-at-limit", "render", "render-pure"}
"""Rules for which a batch has to be made by its id, and drawn."""

NO_DICTS = {"inner-info-masks"}
"""The rule of dicts in infos, which few engines have."""

NO_TERMINATIONS = ("pendulum", "half_cheetah", "fast", "playground")
FIXED_INITIAL_STATES = ("host", "tensors", "brax", "two_devices", "frozen_lake", "fast")

CONSTANT_INFOS = ("func_env", "inverted_pendulum")
"""Engines whose infos are the same in every step, so that stale ones cannot be told apart."""

QUICK = ("host", "tensors", "envpool")
QUICK_CELLS = (
    ("brax", "numpy", "SameStep"),
    ("fast", "numpy", "Disabled"),
    ("pendulum", "numpy", "SameStep"),
)
"""Batches whose checks do not wait for the slow leg."""


def marked_cells() -> Iterator[Any]:
    """Yield the cells, with a mark on those that take long."""
    for param in cells():
        (cell,) = param.values
        is_quick = cell.engine in QUICK or cell in QUICK_CELLS
        yield pytest.param(cell, marks=() if is_quick else pytest.mark.slow, id=param.id)


@pytest.mark.parametrize("cell", [*marked_cells()])
def test_every_batch__keeps_every_rule(cell: Cell) -> None:
    engine, kind, mode = cell
    pytest.importorskip(kind)

    def make(autoreset_mode: Any = mode) -> Any:
        return make_batch(engine, autoreset_mode, limit=10, arrays=kind)

    report = check_vector_env(make, steps=60)
    print(report)
    assert not ids(report, "broken")
    unreached = ids(report, "not reached") - NO_ID - NO_DICTS
    if kind != "numpy":
        unreached -= {"info-zeros", "action-list"}
    if engine in CONSTANT_INFOS:
        unreached -= {"same-step-infos"}
    if engine not in (*NO_TERMINATIONS, *FIXED_INITIAL_STATES):
        assert unreached == set()
    assert len(ids(report, "held")) > 25


@pytest.mark.parametrize(
    "env_id",
    [
        "EnvPool/CartPole-v1",
        pytest.param(
            "Brax/inverted_pendulum-v0", marks=[pytest.mark.slow, pytest.mark.needs_opengl]
        ),
    ],
)
def test_batch__made_by_id_is_seen_to_keep_every_rule(env_id: str, mode: str) -> None:
    pytest.importorskip("envpool.registration" if "EnvPool" in env_id else "brax.envs")
    options = {"autoreset_mode": mode, "max_episode_steps": 10, "render_mode": "rgb_array"}
    report = check_vector_env(lambda: gym.make_vec(env_id, 4, **options), steps=100)
    print(report)
    assert not ids(report, "broken")
    # Infos of the pendulum are the same in every step.
    assert ids(report, "not reached") <= NO_DICTS | {"same-step-infos"}
    assert min(report.terminations, report.truncations) > 20


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "checker.md"


def assert_as_documented(name: str, report: Report) -> None:
    """Raise unless the page of rules lists for an environment just what it breaks."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    (row,) = (line for line in lines if line.startswith(f"| {name} |"))
    listed = [set(re.findall(r"`([^`]+)`", cell)) for cell in row.split("|")[2:4]]
    broken = {result.id for result in report.broken}
    print(report)
    assert [broken, ids(report, "broken") - broken] == listed


def test_sync_vector_env__is_as_documented(mode: str) -> None:
    report = check_vector_env(partial(make_walks, mode), steps=120)
    assert_as_documented("`SyncVectorEnv`", report)
    assert ids(report, "broken") == BROKEN_BY_SYNC
    assert not report.not_reached
    assert {result.outcome for result in report.extras} == {"held", "broken"}
    report.raise_if_broken()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"autoreset_mode": "NextStep"}, ""),
        pytest.param({"autoreset_mode": "SameStep"}, "", marks=pytest.mark.slow),
        ({"autoreset_mode": "Disabled"}, ", Disabled"),
        pytest.param({"shared_memory": False}, ", shared_memory=False", marks=pytest.mark.slow),
    ],
)
def test_async_vector_env__is_as_documented(options: dict[str, Any], name: str) -> None:
    """Its processes are not forked from this one, which has JAX's threads."""
    env_fns = [partial(Walk, 7)] * 2
    make = partial(AsyncVectorEnv, env_fns, context="forkserver", **options)
    assert_as_documented(f"`AsyncVectorEnv`{name}", check_vector_env(make, steps=60))


def test_cart_pole_vector_env__is_as_documented() -> None:
    make = partial(gym.make_vec, "CartPole-v1", 4, max_episode_steps=10)
    report = check_vector_env(make, steps=100)
    assert_as_documented("`CartPoleVectorEnv`", report)


def test_functional_jax_vector_env__is_as_documented() -> None:
    pytest.importorskip("jax")
    from gymnasium.envs.phys2d.cartpole import CartPoleJaxVectorEnv

    make = partial(CartPoleJaxVectorEnv, num_envs=4, max_episode_steps=10)
    assert_as_documented("`FunctionalJaxVectorEnv` (CartPole)", check_vector_env(make, steps=60))


@pytest.mark.filterwarnings("ignore:.*precision lowered")
@pytest.mark.filterwarnings("ignore:.*seed")
def test_env_pool_s_own_class__is_as_documented() -> None:
    pytest.importorskip("envpool.registration")
    import envpool

    options: dict[str, Any] = {"env_type": "gymnasium", "num_envs": 4, "max_episode_steps": 10}
    report = check_vector_env(partial(envpool.make, "CartPole-v1", **options), steps=60)
    assert_as_documented("EnvPool's own class (CartPole)", report)
