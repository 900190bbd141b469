"""The compiled step equals the plain rule, and every mode tells the same episodes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool")

from envpool_runs import Moment, Story, act_all, make, make_plain, tell_episodes
from gymnasium.vector import AutoresetMode, VectorEnv
from hypothesis import given
from hypothesis import strategies as st
from strategies import masks
from trees import assert_same, scribble

NUM_ENVS = 4

MODES = ("NextStep", "SameStep", "Disabled")

PROPERTY_TASKS = ("CartPole-v1", "LunarLander-v3", "Blackjack-v1")

Call = tuple[str, Any]


def calls() -> st.SearchStrategy[list[Call]]:
    """Return what a user does: runs of steps with chosen actions, and resets of every kind."""
    steps = st.tuples(st.just("steps"), st.tuples(st.integers(0, 2**16), st.integers(1, 12)))
    resets = st.tuples(st.just("partial reset"), masks(NUM_ENVS))
    full = st.tuples(st.just("reset"), st.none() | st.integers(0, 2**31 - NUM_ENVS))
    return st.lists(steps | resets | full, min_size=3, max_size=12)


def run(envs: VectorEnv, plan: list[Call], *, scribbles: bool) -> list[Any]:
    """Return all that a batch shows under a plan; ended rows are reset first if DISABLED."""
    log: list[Any] = []

    def show(shown: Any) -> Any:
        log.append(_copy(shown))
        if scribbles:
            scribble(shown)
        return log[-1]

    is_manual = envs.metadata["autoreset_mode"] == AutoresetMode.DISABLED
    show(envs.reset(seed=1))
    over = np.zeros(envs.num_envs, np.bool_)
    for kind, value in plan:
        if kind == "reset":
            show(envs.reset(seed=value))
            over[:] = False
        elif kind == "partial reset":
            show(envs.reset(options={"reset_mask": value}))
            over &= ~value
        else:
            first, number = value
            for step in range(number):
                if is_manual and over.any():
                    show(envs.reset(options={"reset_mask": over}))
                shown = show(envs.step(act_all(envs, first, step)))
                over = shown[2] | shown[3]
    return log


def _copy(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _copy(value) for key, value in tree.items()}
    if isinstance(tree, tuple):
        return tuple(map(_copy, tree))
    if isinstance(tree, np.ndarray) and tree.dtype == object:
        copied = np.empty_like(tree)
        copied[:] = [_copy(entry) for entry in tree]
        return copied
    return tree.copy() if isinstance(tree, np.ndarray) else tree


make_once, make_plain_once = cache(make), cache(make_plain)


@pytest.mark.parametrize("task_id", PROPERTY_TASKS)
@pytest.mark.parametrize("mode", MODES)
@given(plan=calls(), limit=st.sampled_from([None, -1, 1, 2, 3, 7, 20]), scribbles=st.booleans())
def test_compiled_step__equals_the_plain_rule(
    task_id: str, mode: str, plan: list[Call], limit: int | None, scribbles: bool
) -> None:
    compiled = make_once(task_id, NUM_ENVS, mode, max_episode_steps=limit)
    plain = make_plain_once(task_id, NUM_ENVS, mode, max_episode_steps=limit)
    actual = run(compiled, plan, scribbles=scribbles)
    assert_same(actual, run(plain, plan, scribbles=False))


@pytest.mark.parametrize("task_id", ["FrozenLake-v1", "CartPole-v1", "MiniGrid-Empty-5x5-v0"])
@pytest.mark.parametrize("limit", [None, 6])
def test_compiled_step__equals_the_plain_rule_on_a_long_run(
    task_id: str, mode: str, limit: int | None
) -> None:
    plan: list[Call] = [("steps", (5, 300)), ("partial reset", np.arange(4) > 1), ("steps", (2, 9))]
    compiled, plain = (
        build(task_id, NUM_ENVS, mode, max_episode_steps=limit) for build in (make, make_plain)
    )
    log = run(compiled, plan, scribbles=True)
    assert_same(log, run(plain, plan, scribbles=False))
    over = np.array([shown[2] | shown[3] for shown in log if len(shown) == 5])
    assert (over.any(axis=1) & ~over.all(axis=1)).sum() > 3 or limit == 6
    assert over.sum() > 8


def test_compiled_step__is_another_path_than_the_plain_rule() -> None:
    """Otherwise the tests above compare a path with itself."""
    called = {}
    for name, envs in (("compiled", make("CartPole-v1")), ("plain", make_plain("CartPole-v1"))):
        seen: list[Any] = []
        advance = envs._simulator.advance
        envs._simulator.advance = lambda *args, seen=seen, advance=advance: (  # type: ignore[method-assign]
            seen.append(1),
            advance(*args),
        )[1]
        envs.reset(seed=0)
        envs.step([0, 1, 0])
        called[name] = bool(seen)
    assert called == {"compiled": False, "plain": True}


EPISODES = {
    # task, its limit -> episodes of each environment that are compared
    ("LunarLander-v3", 20): 4,
    ("LunarLander-v3", None): 2,
    ("Blackjack-v1", None): 12,
    ("Blackjack-v1", 1): 12,
    ("FrozenLake-v1", None): 8,
    ("FrozenLake-v1", 5): 8,
    ("CartPole-v1", None): 6,
    ("CartPole-v1", 12): 6,
    ("Pendulum-v1", 9): 5,
    ("MiniGrid-Empty-5x5-v0", 7): 5,
    ("UTurn-v0", 6): 4,
    ("CartpoleBalance-v1", 4): 3,  # the pool repeats the last reward as an episode begins
    ("RubiksCube-partly-scrambled-v0", 3): 4,
}


@pytest.mark.parametrize(("task_id", "limit"), EPISODES)
def test_modes__tell_the_same_episodes(task_id: str, limit: int | None) -> None:
    number = EPISODES[task_id, limit]
    stories: list[list[Story]] = []
    for mode in MODES:
        envs = make(task_id, 3, mode, max_episode_steps=limit)
        stories.append(tell_episodes(envs, number, seed=17))
    assert_same(stories[1], stories[0])
    assert_same(stories[2], stories[0])
    for story in stories[0]:
        assert len(story) == number
        for episode in story:
            _check_flags(episode, limit)


def _check_flags(episode: list[Moment], limit: int | None) -> None:
    *before, last = episode
    assert not any(moment.terminated or moment.truncated for moment in before)
    assert last.terminated != last.truncated
    if limit is not None:
        assert len(before) <= limit
        assert len(before) == limit or last.terminated
    assert [int(moment.info["elapsed_step"]) for moment in episode] == [*range(len(episode))]


def test_modes__tell_the_episodes_that_a_cut_row_begins_elsewhere_than_a_stepped_one() -> None:
    """A row that the limit cut must not take a step before its restart: the step draws numbers."""
    cut = make("LunarLander-v3", 1, "Disabled", max_episode_steps=20)
    stepped = make("LunarLander-v3", 1, "Disabled", max_episode_steps=21)
    begun = []
    for envs, steps in ((cut, 20), (stepped, 21)):
        envs.reset(seed=17)
        for step in range(steps):
            envs.step(act_all(envs, 1, step))
        begun.append(envs.reset(options={"reset_mask": np.ones(1, np.bool_)})[0])
    assert (begun[0] != begun[1]).any()
