"""The quick step equals the plain rule."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool")

from gymnasium.vector import AutoresetMode, VectorEnv
from hypothesis import given
from hypothesis import strategies as st

from tests.support.envpool_runs import MODES, act_all, make, make_plain
from tests.support.strategies import masks
from tests.support.trees import assert_same, scribble

NUM_ENVS = 4

Call = tuple[str, Any]


def calls() -> st.SearchStrategy[list[Call]]:
    """Return what a user does: runs of steps with chosen actions, and resets of every kind."""
    steps = st.tuples(st.just("steps"), st.tuples(st.integers(0, 2**16), st.integers(1, 12)))
    resets = st.tuples(st.just("partial reset"), masks(NUM_ENVS))
    full = st.tuples(st.just("reset"), st.none() | st.integers(0, 2**31 - NUM_ENVS))
    return st.lists(steps | resets | full, min_size=3, max_size=12)


def run(envs: VectorEnv, plan: list[Call], *, scribbles: bool) -> list[Any]:
    """Return all that a batch returns under a plan; ended rows are reset first if Disabled."""
    log: list[Any] = []

    def keep(returned: Any) -> Any:
        log.append(copy.deepcopy(returned))
        if scribbles:
            scribble(returned)
        return log[-1]

    is_manual = envs.metadata["autoreset_mode"] == AutoresetMode.DISABLED
    keep(envs.reset(seed=1))
    over = np.zeros(envs.num_envs, np.bool_)
    for kind, value in plan:
        if kind == "reset":
            keep(envs.reset(seed=value))
            over[:] = False
        elif kind == "partial reset":
            keep(envs.reset(options={"reset_mask": value}))
            over &= ~value
        else:
            first, number = value
            for step in range(number):
                if is_manual and over.any():
                    keep(envs.reset(options={"reset_mask": over}))
                returned = keep(envs.step(act_all(envs, first, step)))
                over = returned[2] | returned[3]
    return log


make_once, make_plain_once = cache(make), cache(make_plain)


@pytest.mark.parametrize("task_id", ["CartPole-v1", "LunarLander-v3", "Blackjack-v1"])
@pytest.mark.parametrize("mode", MODES)
@given(plan=calls(), limit=st.sampled_from([None, -1, 1, 2, 3, 7, 20]), scribbles=st.booleans())
def test_quick_step__equals_the_plain_rule(
    task_id: str, mode: str, plan: list[Call], limit: int | None, scribbles: bool
) -> None:
    quick = make_once(task_id, NUM_ENVS, mode, max_episode_steps=limit)
    plain = make_plain_once(task_id, NUM_ENVS, mode, max_episode_steps=limit)
    found = run(quick, plan, scribbles=scribbles)
    assert_same(found, run(plain, plan, scribbles=False))


@pytest.mark.parametrize("task_id", ["FrozenLake-v1", "CartPole-v1", "MiniGrid-Empty-5x5-v0"])
@pytest.mark.parametrize("limit", [None, 6])
def test_quick_step__equals_the_plain_rule_on_a_long_run(
    task_id: str, mode: str, limit: int | None
) -> None:
    plan: list[Call] = [("steps", (5, 300)), ("partial reset", np.arange(4) > 1), ("steps", (2, 9))]
    quick, plain = (
        build(task_id, NUM_ENVS, mode, max_episode_steps=limit) for build in (make, make_plain)
    )
    log = run(quick, plan, scribbles=True)
    assert_same(log, run(plain, plan, scribbles=False))
    over = np.array([returned[2] | returned[3] for returned in log if len(returned) == 5])
    assert (over.any(axis=1) & ~over.all(axis=1)).sum() > 3 or limit == 6
    assert over.sum() > 8


def test_quick_step__is_another_path_than_the_plain_rule() -> None:
    """Otherwise the tests above compare a path with itself."""
    runners = [type(build("CartPole-v1")._runner).__name__ for build in (make, make_plain)]
    assert runners == ["PoolRunner", "HostRunner"]


def test_restart__earns_nothing_where_the_pool_answers_nan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mujoco.dmc tasks answer with what their last episode, or memory, held."""
    envs: Any = make("CartPole-v1", 2, AutoresetMode.NEXT_STEP)
    envs.reset(seed=0)
    while not envs.step([0, 1])[2].any():
        pass
    ended, receive = envs._carry.ended.copy(), envs._simulator.pool.receive
    place = envs._simulator.layout.reward_place

    def answer() -> Any:
        values = receive()
        values[place][ended] = np.nan
        return values

    monkeypatch.setattr(envs._simulator.pool, "receive", answer)
    np.testing.assert_array_equal(envs.step([0, 1])[1], np.where(ended, 0, 1))
