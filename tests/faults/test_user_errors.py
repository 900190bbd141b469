"""Errors in a user's code: who is told what, and the batch goes on."""

from __future__ import annotations

import pytest
from children import Child

pytest.importorskip("brax.envs")

import user_errors as checks

slow = pytest.mark.slow


@pytest.mark.parametrize("verb", ["reset", "step"])
def test_construction__names_the_line_and_keeps_the_cause(verb: str, child: Child) -> None:
    child.call(checks.check_construction, verb)


@pytest.mark.parametrize("has_graph", [False, pytest.param(True, marks=slow)], ids=["", "graph"])
@pytest.mark.parametrize("verb", ["reset", pytest.param("step", marks=slow)])
def test_built_batch__runs_nothing_of_the_environment_s_own(
    verb: str, has_graph: bool, child: Child
) -> None:
    if has_graph:
        pytest.importorskip("torch")
    child.call(checks.check_first_call, verb, has_graph)


def test_step_that_fails_as_it_runs__was_not_taken(mode: str, child: Child) -> None:
    child.call(checks.check_run_time, "numpy", mode)


@pytest.mark.slow
def test_step_that_fails_as_it_runs__was_not_taken_on_devices(arrays: str, child: Child) -> None:
    child.call(checks.check_run_time, arrays, "SameStep")


def test_randomization_fn__that_fails_leaves_the_model(child: Child) -> None:
    child.call(checks.check_randomization)


def test_functional_env__that_fails_is_told_as_it_is(child: Child) -> None:
    child.call(checks.check_functional_env)


@pytest.mark.parametrize("verb", ["advance", "restart"])
def test_host_simulator__that_fails_moves_nothing(mode: str, verb: str, child: Child) -> None:
    child.call(checks.check_host, mode, verb)


def test_render__that_fails_moves_nothing(child: Child) -> None:
    child.call(checks.check_frame)
