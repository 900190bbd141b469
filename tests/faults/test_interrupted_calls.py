"""Ctrl-C at every place of a call: the batch goes on exactly, or asks for a reset. Threads."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.batches import make_batch
from tests.support.interrupted_calls import check_asynchronous_pool, check_batch, check_saves
from tests.support.player import play
from tests.support.trees import assert_same

pytestmark = pytest.mark.long

BRAX, ENVPOOL = "brax.envs", "envpool.registration"
ENGINES = {"brax": BRAX, "fast": BRAX, "func_env": "jax", "envpool": ENVPOOL}
CALLS = ["step", "reset", "seeded reset", "partial reset"]
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def child() -> Iterator[Any]:
    """A process that imports its engines once."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        yield pool


def call(child: Any, function: Any, *args: Any) -> Any:
    """Return what a function returns in the child, where a hang is a failure and no stuck suite."""
    try:
        return child.apply_async(function, args).get(300)
    except multiprocessing.TimeoutError:
        child.terminate()  # it hangs or has died; the tests that follow fail at once
        raise


def check(child: Any, engine: str, *args: Any, **options: Any) -> dict[str, dict[str, int]]:
    """Interrupt in the child; see `check_batch`."""
    if engine in ENGINES:
        pytest.importorskip(ENGINES[engine])
    return call(child, check_batch, engine, *args, options)


@pytest.mark.parametrize("error", [KeyboardInterrupt, pytest.param(TimeoutError, marks=slow)])
@pytest.mark.parametrize(
    "engine", ["host", pytest.param("envpool", marks=slow), pytest.param("brax", marks=slow)]
)
def test_interrupt__anywhere_is_before_or_after_the_call(
    engine: str, mode: str, error: type[BaseException], child: Any
) -> None:
    names = [*CALLS, *(["step_some"] if mode == "Disabled" else [])]
    met = check(child, engine, mode, "numpy", names, error)
    for name in names:
        assert met[name]["before"] > 20
        assert met[name]["after"] >= 1
        assert bool(met[name]["reset"]) == (engine == "envpool" or name == "seeded reset")


def test_interrupt__of_a_pool_asks_for_a_reset_from_the_exchange_on(child: Any) -> None:
    options = {"render_mode": "rgb_array"}
    met = check(child, "envpool", "SameStep", "numpy", CALLS, TimeoutError, **options)
    assert all(min(found.values()) >= 1 for found in met.values()), met


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["brax", "func_env", "envpool"])
def test_interrupt__of_tensors_and_arrays(engine: str, arrays: str, child: Any) -> None:
    met = check(child, engine, "SameStep", arrays, CALLS, KeyboardInterrupt)
    assert all(found["before"] > 20 for found in met.values()), met


@pytest.mark.slow
@pytest.mark.parametrize("residuals", ["store", "recompute"])
def test_interrupt__of_a_graph(residuals: str, child: Any) -> None:
    pytest.importorskip("torch")
    options = {"differentiable": True, "residuals": residuals}
    names = [*CALLS, "step with a graph", "snapshot"]
    met = check(child, "fast", "SameStep", "torch", names, KeyboardInterrupt, **options)
    assert met["step with a graph"]["before"] > met["step"]["before"]


def test_interrupted_frame__costs_nothing_else(child: Any) -> None:
    options = {"render_mode": "rgb_array"}
    met = check(child, "envpool", "NextStep", "numpy", ["render"], KeyboardInterrupt, **options)
    assert met["render"]["reset"] == 0
    assert met["render"]["before"] > 5


@pytest.mark.slow
def test_interrupted_snapshot__leaves_the_file_and_the_batch(child: Any, tmp_path: Any) -> None:
    pytest.importorskip(BRAX)
    met = call(child, check_saves, str(tmp_path / "state"))
    assert min(met.values()) > 20


def test_interrupted_asynchronous_pool__asks_for_a_new_beginning(child: Any) -> None:
    pytest.importorskip(ENVPOOL)
    met = call(child, check_asynchronous_pool)
    assert all(found["goes on"] and found["reset"] for found in met.values()), met


PLANS = [
    ("envpool", "NextStep", "numpy"),
    ("envpool", "SameStep", "torch"),
    ("brax", "NextStep", "numpy"),
    ("brax", "SameStep", "jax"),
    ("host", "Disabled", "numpy"),
]


def run_together() -> None:
    """Build and play each plan in a thread of its own, twice, and then one after the other."""

    def run(plan: tuple[str, str, str]) -> list[Any]:
        engine, mode, arrays = plan
        return play(make_batch(engine, mode, limit=4, arrays=arrays), 30)

    make_batch("brax")  # imports its engine, which two threads at a time cannot
    with ThreadPoolExecutor(len(PLANS)) as threads:
        together = list(threads.map(run, PLANS + PLANS[::-1]))
    alone = [run(plan) for plan in PLANS]
    assert_same(together, alone + alone[::-1])


@pytest.mark.slow
def test_batches_of_several_threads__run_as_alone(child: Any) -> None:
    for module in (BRAX, ENVPOOL, "torch"):
        pytest.importorskip(module)
    call(child, run_together)
