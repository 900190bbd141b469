"""What `step_some` refuses, and what it shows of the environments that it holds.

That it steps and holds what its mask says is compared with the oracle and with a twin.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from batches import cells, draw_actions, make_batch, shared_batch, to_numpy
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
        (np.zeros(4, bool), ArgumentError, "`mask` must contain a boolean array with"),
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
