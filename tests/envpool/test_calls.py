"""Partial resets touch their rows only, and a bad call changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool")

from envpool_runs import act_all, leaves_of, make, play
from gymnasium import error
from gymnasium.vector import AutoresetMode, VectorEnv
from trees import assert_same, scribble

from gymbridge.errors import (
    ActionError,
    ArgumentError,
    ArgumentTypeError,
    ClosedError,
    EpisodeEndedError,
    ResetNeededError,
)

Call = Callable[[VectorEnv], Any]

MASK = np.array([True, False, True, False])


def rows(shown: Any, mask: np.ndarray) -> list[Any]:
    """Return some rows of what a step returned, infos that tell of ends aside."""
    obs, *results, infos = shown
    engine = {key: value for key, value in infos.items() if "final" not in key}
    return [part[mask] for tree in (obs, engine) for part in leaves_of(tree)] + [
        part[mask] for part in results
    ]


@pytest.mark.parametrize("task_id", ["CartPole-v1", "LunarLander-v3", "MiniGrid-Empty-5x5-v0"])
@pytest.mark.parametrize("scribbles", [False, True])
def test_partial_reset__leaves_the_other_rows_as_they_are(
    task_id: str, mode: str, scribbles: bool
) -> None:
    """Every third call is a partial reset of the same rows; a twin without them is the measure."""
    touch = scribble if scribbles else lambda shown: None
    envs, twin = (make(task_id, 4, mode, max_episode_steps=11) for _ in range(2))
    shown, expected = envs.reset(seed=3), twin.reset(seed=3)
    assert_same(shown, expected)
    ended = 0
    for step in range(45):
        actions = act_all(envs, 0, step)
        shown, expected = envs.step(actions), twin.step(actions)
        assert_same(rows(shown, ~MASK), rows(expected, ~MASK))
        before = [leaf[~MASK].copy() for leaf in leaves_of(shown[0])]
        overs = [outcome[2] | outcome[3] for outcome in (shown, expected)]
        ended += overs[1][~MASK].sum()
        touch(shown)
        if step % 3 == 0:
            obs, infos = envs.reset(options={"reset_mask": MASK})
            assert_same([leaf[~MASK] for leaf in leaves_of(obs)], before)
            np.testing.assert_array_equal(infos["_elapsed_step"], MASK)
            assert not infos["elapsed_step"].any()
            overs[0] &= ~MASK
            touch((obs, infos))
        if mode == "Disabled":
            for batch, over in zip((envs, twin), overs, strict=True):
                if over.any():
                    batch.reset(options={"reset_mask": over})
    assert ended > 4


def test_partial_reset__begins_the_count_of_steps_anew(mode: str) -> None:
    envs = make("Pendulum-v1", 4, mode, max_episode_steps=6)
    envs.reset(seed=0)
    for step in range(4):
        envs.step(act_all(envs, 0, step))
    envs.reset(options={"reset_mask": MASK})
    cut = [envs.step(act_all(envs, 1, step))[3] for step in range(2)]
    np.testing.assert_array_equal(cut, [[False] * 4, ~MASK])
    if mode == "Disabled":
        envs.reset(options={"reset_mask": ~MASK})
    cut = [envs.step(act_all(envs, 2, step))[3] for step in range(4)]
    np.testing.assert_array_equal(cut, [[False] * 4] * 3 + [MASK])


@pytest.mark.parametrize("limit", [None, 5])
def test_partial_reset__of_an_ended_row_takes_its_restart_away(limit: int | None) -> None:
    """CartPole's rows end by themselves, or all at once by a limit that the pool does not know."""
    envs = make("CartPole-v1", 4, max_episode_steps=limit)
    envs.reset(seed=0)
    over = np.zeros(4, np.bool_)
    while not over.any():
        obs, _, terminated, truncated, _ = envs.step(np.ones(4, np.int64))
        over = terminated | truncated
    fresh, _ = envs.reset(options={"reset_mask": MASK})
    changed = (fresh != obs).any(axis=1)
    np.testing.assert_array_equal(changed, MASK)
    _, rewards, terminated, truncated, infos = envs.step(np.zeros(4, np.int64))
    np.testing.assert_array_equal(rewards, np.where(over & ~MASK, 0, 1))
    np.testing.assert_array_equal(infos["elapsed_step"] == 0, over & ~MASK)
    assert (over & ~MASK).any()
    assert not (terminated | truncated)[over | MASK].any()


ACTION_FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "list": lambda actions: actions.tolist(),
    "tuple of numpy ints": tuple,
    "int64": lambda actions: actions.astype(np.int64),
    "uint8": lambda actions: actions.astype(np.uint8),
    "bool": lambda actions: actions.astype(np.bool_),
    "every other of an array": lambda actions: np.repeat(actions, 2)[::2],
    "reversed view": lambda actions: actions[::-1].copy()[::-1],
    "big endian": lambda actions: actions.astype(">i4"),
}


@pytest.mark.parametrize("form", ACTION_FORMS)
def test_discrete_actions__may_have_many_forms(form: str) -> None:
    envs, twin = make("CartPole-v1", 4), make("CartPole-v1", 4)
    assert_same(envs.reset(seed=1), twin.reset(seed=1))
    for step in range(30):
        actions = act_all(envs, 0, step)
        given = ACTION_FORMS[form](actions)
        assert_same(envs.step(given), twin.step(actions))
        np.testing.assert_array_equal(given, actions)


@pytest.mark.parametrize("task_id", ["Pendulum-v1", "HalfCheetah-v5"])
@pytest.mark.parametrize(
    "form",
    [np.asfortranarray, lambda a: np.repeat(a, 2, axis=0)[::2], lambda a: a.tolist(), list],
    ids=["fortran", "strided", "lists", "list of rows"],
)
def test_box_actions__may_have_many_forms(task_id: str, form: Any) -> None:
    envs, twin = make(task_id, 3), make(task_id, 3)
    assert_same(envs.reset(seed=1), twin.reset(seed=1))
    for step in range(10):
        actions = act_all(envs, 0, step)
        assert_same(envs.step(form(actions)), twin.step(actions))


def test_box_actions__are_cast_within_their_kind() -> None:
    envs, twin = make("Pendulum-v1", 3), make("Pendulum-v1", 3)
    assert_same(envs.reset(seed=1), twin.reset(seed=1))
    actions = act_all(envs, 0, 0)
    assert_same(envs.step(actions.astype(np.float64)), twin.step(actions))
    assert_same(envs.step(np.ones((3, 1), int)), twin.step(np.ones((3, 1), np.float32)))


BAD_CALLS: dict[str, tuple[str, Call, type[Exception], str]] = {
    "few": ("CartPole-v1", lambda e: e.step([0, 1, 0]), ActionError, r"shape \(4,\).*\(3,\)"),
    "many": ("CartPole-v1", lambda e: e.step([0] * 5), ActionError, r"shape \(4,\).*\(5,\)"),
    "column": (
        "CartPole-v1",
        lambda e: e.step(np.zeros((4, 1), np.int32)),
        ActionError,
        r"shape \(4,\).*\(4, 1\)",
    ),
    "one": ("CartPole-v1", lambda e: e.step(1), ArgumentTypeError, "the single value 1"),
    "nothing": ("CartPole-v1", lambda e: e.step(None), ArgumentTypeError, "single value None"),
    "ragged": ("CartPole-v1", lambda e: e.step([0, [1], 0, 1]), ActionError, "form one array"),
    "high": ("CartPole-v1", lambda e: e.step([0, 1, 2, 0]), ActionError, r"in Discrete\(2"),
    "negative": (
        "CartPole-v1",
        lambda e: e.step(np.array([0, -1, 0, 0], np.int32)),
        ActionError,
        r"in Discrete\(2",
    ),
    "a multiple of 2**32": (
        "CartPole-v1",
        lambda e: e.step(np.array([0, 2**32, 0, 0])),
        ActionError,
        r"in Discrete\(2",
    ),
    "float for discrete": (
        "CartPole-v1",
        lambda e: e.step(np.zeros(4)),
        ArgumentTypeError,
        "must be integers.*float64",
    ),
    "flat for a box": (
        "Pendulum-v1",
        lambda e: e.step(np.zeros(4)),
        ActionError,
        r"shape \(4, 1\).*got \(4,\)",
    ),
    "complex for a box": (
        "Pendulum-v1",
        lambda e: e.step(np.zeros((4, 1), complex)),
        ArgumentTypeError,
        "castable to float32",
    ),
    "text for a box": (
        "Pendulum-v1",
        lambda e: e.step([["a"]] * 4),
        ArgumentTypeError,
        "castable to float32",
    ),
    "unknown option": (
        "CartPole-v1",
        lambda e: e.reset(options={"mask": MASK}),
        ArgumentError,
        "unknown key 'mask'",
    ),
    "mask of no row": (
        "CartPole-v1",
        lambda e: e.reset(options={"reset_mask": MASK & ~MASK}),
        ArgumentError,
        "at least one True",
    ),
    "mask of ints": (
        "CartPole-v1",
        lambda e: e.reset(options={"reset_mask": MASK.astype(int)}),
        ArgumentTypeError,
        "dtype=np.bool_",
    ),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_call__changes_nothing(case: str, mode: str) -> None:
    task_id, call, kind, message = BAD_CALLS[case]
    envs, twin = (make(task_id, 4, mode, max_episode_steps=30) for _ in range(2))
    assert_same(play(envs, 20), play(twin, 20))
    for _ in range(2):
        with pytest.raises(kind, match=message):
            call(envs)
    assert_same(play(envs, 50, seed="go on"), play(twin, 50, seed="go on"))


def test_step__needs_a_reset_first(mode: str) -> None:
    envs, twin = make("CartPole-v1", 4, mode), make("CartPole-v1", 4, mode)
    with pytest.raises(ResetNeededError, match=r"call `reset\(\)` first"):
        envs.step([0] * 4)
    with pytest.raises(error.ResetNeeded, match=r"call `reset\(\)` without it first"):
        envs.reset(options={"reset_mask": MASK})
    assert_same(play(envs, 10), play(twin, 10))


def test_step__of_ended_rows_is_refused_without_autoreset() -> None:
    envs, twin = (make("Pendulum-v1", 4, "Disabled", max_episode_steps=3) for _ in range(2))
    for batch in (envs, twin):
        batch.reset(seed=0)
        for step in range(3):
            batch.step(act_all(batch, 0, step))
    with pytest.raises(EpisodeEndedError, match=r"\[0, 1, 2, 3\] have ended"):
        envs.step(act_all(envs, 0, 3))
    for batch in (envs, twin):
        batch.reset(options={"reset_mask": MASK})
    with pytest.raises(AssertionError, match=r"\[1, 3\] have ended"):
        envs.step(act_all(envs, 0, 3))
    for batch in (envs, twin):
        batch.reset(options={"reset_mask": ~MASK})
    assert_same(play(envs, 3, seed="go on"), play(twin, 3, seed="go on"))


def test_close__ends_every_use() -> None:
    envs = make("CartPole-v1", 4)
    envs.reset(seed=0)
    envs.close()
    envs.close()
    calls: list[Call] = [
        lambda e: e.step([0] * 4),
        lambda e: e.reset(),
        lambda e: e.reset(options={"reset_mask": MASK}),
        lambda e: e.get_attr("spec"),
        lambda e: e.set_attr("label", 1),
    ]
    for call in calls:
        with pytest.raises(ClosedError, match="is closed; build a new one"):
            call(envs)
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
