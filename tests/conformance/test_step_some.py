"""`step_some` steps the environments under its mask as `step` does, and holds the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from batches import Cell, cells, draw_actions, leaves, make_batch, shared_batch, to_kind, to_numpy
from trees import assert_same, scribble

from gymbridge.errors import (
    ActionError,
    ArgumentError,
    ArgumentTypeError,
    EpisodeEndedError,
    ResetNeededError,
)

NUM_ENVS, LIMIT, NUM_STEPS, SEED = 4, 4, 14, 5

without_autoreset = pytest.mark.parametrize("cell", cells(modes=["Disabled"]))


def _rows(step: Any) -> list[list[np.ndarray]]:
    """Return what each environment sees of a step: observation, reward and both flags."""
    obs, rewards, terminations, truncations, _ = to_numpy(step)
    parts = [*leaves(obs), rewards, terminations, truncations]
    return [[part[row] for part in parts] for row in range(NUM_ENVS)]


def _assert_rows(found: Any, wanted: Any, what: str) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=what)


def _begin_ended(envs: Any, rows: Any, kind: str) -> None:
    """Reset the environments whose last step ended an episode."""
    ended = np.array([bool(row[-1] or row[-2]) for row in rows])
    if ended.any():
        envs.reset(options={"reset_mask": to_kind(ended, kind)})


def _play_all(envs: Any, actions: np.ndarray, kind: str) -> list[Any]:
    """Return what `step` gives, by environment and step."""
    envs.reset(seed=SEED)
    seen = []
    for one in actions:
        seen.append(_rows(envs.step(to_kind(one, kind))))
        _begin_ended(envs, seen[-1], kind)
    return seen


@without_autoreset
def test_step_some__is_a_step_of_the_environments_under_the_mask(cell: Cell) -> None:
    envs, kind = cell.batch(), cell.kind
    rng = np.random.default_rng(1)
    actions = np.stack([draw_actions(envs, rng) for _ in range(NUM_STEPS)])
    wanted = _play_all(envs, actions, kind)
    obs, _ = envs.reset(seed=SEED)
    last: Any = [[leaf[row] for leaf in leaves(to_numpy(obs))] for row in range(NUM_ENVS)]
    last = [[*row, np.False_, np.False_] for row in last]
    taken = np.zeros(NUM_ENVS, int)
    was_mixed = False
    for _ in range(NUM_STEPS):
        mask = rng.random(NUM_ENVS) < 0.6
        mask[rng.integers(NUM_ENVS)] = True
        was_mixed |= not mask.all()
        own = np.stack([actions[taken[row], row] for row in range(NUM_ENVS)])
        found = _rows(envs.step_some(to_kind(own, kind), to_kind(mask, kind)))
        for row in range(NUM_ENVS):
            *obs_leaves, reward, terminated, truncated = found[row]
            if mask[row]:
                _assert_rows(found[row], wanted[taken[row]][row], f"row {row}")
            else:
                assert reward == 0
                _assert_rows([*obs_leaves, terminated, truncated], last[row], f"held row {row}")
            last[row] = [*obs_leaves, terminated, truncated]
        taken += mask
        ended = np.array([bool(row[-1] or row[-2]) for row in found])
        if ended.any():
            obs, _ = envs.reset(options={"reset_mask": to_kind(ended, kind)})
            for row in np.flatnonzero(ended):
                last[row] = [*(leaf[row] for leaf in leaves(to_numpy(obs))), np.False_, np.False_]
    assert was_mixed


@without_autoreset
def test_ended_environments__may_stay_outside_the_mask(cell: Cell) -> None:
    envs, kind = cell.batch(), cell.kind
    envs.reset(seed=SEED)
    actions = to_kind(draw_actions(envs, np.random.default_rng(0)), kind)
    rows = np.array([True, False, False, False])
    found = None
    for _ in range(LIMIT):
        found = _rows(envs.step_some(actions, to_kind(rows, kind)))
        if found[0][-1] or found[0][-2]:
            break
    assert found is not None
    later = _rows(envs.step_some(actions, to_kind(~rows, kind)))
    *obs, _, terminated, truncated = found[0]
    *held, reward, still_terminated, still_truncated = later[0]
    flags = [still_terminated, still_truncated]
    _assert_rows([*held, *flags], [*obs, terminated, truncated], "the ended row")
    assert reward == 0


def test_ended_environment_under_the_mask__is_an_error() -> None:
    envs = make_batch("host", "Disabled", num_envs=NUM_ENVS, limit=1)
    envs.reset(seed=0)
    first = np.array([True, False, False, False])
    envs.step_some(np.zeros(NUM_ENVS, int), first)
    with pytest.raises(EpisodeEndedError, match=r"\[0\] have ended"):
        envs.step_some(np.zeros(NUM_ENVS, int), np.ones(NUM_ENVS, bool))
    assert envs.step_some(np.zeros(NUM_ENVS, int), ~first)[3].all()


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (np.ones(2, bool), ArgumentError, r"`mask` must have shape `\(4,\)`, got \(2,\)"),
        (np.zeros(4, bool), ArgumentError, "`mask` must contain at least one True"),
        (np.ones(4, int), ArgumentTypeError, "`mask` must have `dtype=np.bool_`, got int64"),
        ([True] * 4, ArgumentTypeError, "`mask` must be a numpy array"),
    ],
)
def test_bad_mask__changes_nothing(mask: Any, error: type[Exception], message: str) -> None:
    envs = make_batch("host", "Disabled", num_envs=NUM_ENVS)
    envs.reset(seed=0)
    with pytest.raises(error, match=message):
        envs.step_some(np.zeros(NUM_ENVS, int), mask)
    assert envs.step(np.zeros(NUM_ENVS, int))[0].tolist() == [1, 1, 1, 1]


def test_bad_call__is_an_error() -> None:
    rows = np.ones(NUM_ENVS, bool)
    for mode in ("NextStep", "SameStep"):
        envs = make_batch("host", mode, num_envs=NUM_ENVS)
        envs.reset(seed=0)
        with pytest.raises(ArgumentError, match=f"needs `autoreset_mode='Disabled'`, got '{mode}'"):
            envs.step_some(np.zeros(NUM_ENVS, int), rows)
    envs = make_batch("host", "Disabled", num_envs=NUM_ENVS)
    with pytest.raises(ResetNeededError):
        envs.step_some(np.zeros(NUM_ENVS, int), rows)
    envs.reset(seed=0)
    with pytest.raises(ActionError):
        envs.step_some(np.full(NUM_ENVS, 7), rows)


def test_held_environment__shows_its_infos_whatever_its_user_wrote(engine: str) -> None:
    envs = shared_batch(engine, "Disabled", limit=LIMIT)
    actions = draw_actions(envs, np.random.default_rng(2))
    masks = np.array([[True, True, False, False], [False, False, True, True]])
    runs = []
    for touch in (lambda tree: None, scribble):
        run: list[Any] = [envs.reset(seed=SEED)]
        for mask in masks:
            touch(run.pop())
            returned = envs.step_some(actions, mask)
            run += [to_numpy(returned), returned]
        runs.append(run[:-1])
    assert_same(runs[1], runs[0])
