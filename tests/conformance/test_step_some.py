"""What `step_some` refuses, and what it shows of the environments that it holds.

That it steps and holds what its mask says is compared with the oracle and with a twin, as is that a
bad call changes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gymbridge.errors import ArgumentError
from tests.support.batches import QUICK, draw_actions, shared_batch, to_numpy
from tests.support.trees import assert_same, scribble

NUM_ENVS = 4


def test_bad_call__is_told_its_rule() -> None:
    rows = np.ones(NUM_ENVS, bool)
    for mode in ("NextStep", "SameStep"):
        envs = shared_batch("host", mode, num_envs=NUM_ENVS)
        with pytest.raises(ArgumentError, match=f"needs `autoreset_mode='Disabled'`, got '{mode}'"):
            envs.step_some(np.zeros(NUM_ENVS, int), rows)
    envs = shared_batch("host", "Disabled", num_envs=NUM_ENVS)
    envs.reset(seed=0)
    with pytest.raises(ArgumentError, match=r"`mask` must have shape `\(4,\)`, got \(2,\)"):
        envs.step_some(np.zeros(NUM_ENVS, int), rows[:2])


@pytest.mark.parametrize("engine", QUICK)
def test_held_environment__shows_its_infos_whatever_its_user_wrote(engine: str) -> None:
    envs = shared_batch(engine, "Disabled", limit=4)
    actions = draw_actions(envs, np.random.default_rng(2))
    masks = np.array([[True, True, False, False], [False, False, True, True]])
    runs = []
    for touch in (lambda tree: None, scribble):
        run: list[Any] = [envs.reset(seed=5)]
        for mask in masks:
            touch(run.pop())
            returned = envs.step_some(actions, mask)
            run += [to_numpy(returned), returned]
        runs.append(run[:-1])
    assert_same(runs[1], runs[0])
