"""The quick step equals the plain rule."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("envpool")

from gymnasium.vector import AutoresetMode, VectorEnv
from hypothesis import given
from hypothesis import strategies as st

from tests.support.batches import to_numpy
from tests.support.envpool_runs import MODES, act_all, make, make_plain
from tests.support.player import play
from tests.support.trees import assert_same, scribble

NUM_ENVS = 4


class Part(NamedTuple):
    """A part of a run, which begins with a reset of all."""

    seed: int | None
    number: int  # from which actions are drawn, and what else happens
    num_steps: int
    is_calm: bool  # nothing is held, or reset while it runs


def parts() -> st.SearchStrategy[list[Part]]:
    """Return what a user does: resets of every kind, and steps with chosen actions."""
    seeds = st.none() | st.integers(0, 2**31 - NUM_ENVS)
    part = st.builds(Part, seeds, st.integers(0, 2**16), st.integers(1, 24), st.booleans())
    return st.lists(part, min_size=1, max_size=2)


def run(envs: VectorEnv, plan: list[Part], *, scribbles: bool) -> list[Any]:
    """Return all that a batch returns under a plan."""
    log: list[Any] = [to_numpy(envs.reset(seed=1))]
    options: dict[str, Any] = {"touch": scribble} if scribbles else {}
    for seed, number, num_steps, is_calm in plan:
        act, rng = partial(act_all, envs, number), np.random.default_rng(number)
        disturb = None if is_calm else rng
        log += play(envs, num_steps, seed=seed, act=act, disturb=disturb, **options)
    return log


make_once, make_plain_once = cache(make), cache(make_plain)


@pytest.mark.parametrize("task_id", ["CartPole-v1", "LunarLander-v3", "Blackjack-v1"])
@pytest.mark.parametrize("mode", MODES)
@given(plan=parts(), limit=st.sampled_from([None, -1, 1, 2, 3, 7, 20]), scribbles=st.booleans())
def test_quick_step__equals_the_plain_rule(
    task_id: str, mode: str, plan: list[Part], limit: int | None, scribbles: bool
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
    plan = [Part(None, 5, 300, is_calm=True), Part(None, 2, 9, is_calm=False)]
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
