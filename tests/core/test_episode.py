"""What the autoreset rule makes of simulators that are unlike Gymnasium's environments.

`tests/conformance/test_against_sync.py` has the rule and the time limit themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from gymbridge.core.episode import EpisodeRule, ResetRequest, StepResult, TimeStep, split_done
from gymbridge.testing import ScriptedSimulator


class UndecidedSimulator(ScriptedSimulator):
    """A scripted simulator that calls every end both terminated and truncated."""

    def _time_step(self, state: Any) -> TimeStep:
        time_step = super()._time_step(state)
        over = time_step.terminated | time_step.truncated
        return time_step._replace(terminated=over, truncated=over)


def run(
    simulator: ScriptedSimulator, mode: str, steps: int, limit: int | None = None
) -> list[StepResult]:
    rule = EpisodeRule(simulator, AutoresetMode(mode), limit)
    mask = np.ones(3, np.bool_)
    outcomes = [rule.reset(None, mask, ResetRequest(np.arange(3, dtype=np.uint32), mask))]
    for _ in range(steps):
        outcomes.append(rule.step(outcomes[-1].carry, np.ones(3, np.int64)))
    return outcomes


def test_split_ends__counts_a_mark_only_where_an_episode_ended() -> None:
    over, cut = np.array([False, False, True, True]), np.array([False, True, False, True])
    terminated, truncated = split_done(over, cut)
    assert terminated.tolist() == [False, False, True, False]
    assert truncated.tolist() == [False, False, False, True]


@pytest.mark.parametrize("limit", [None, 2, 5])
def test_end_with_both_of_the_task_s_flags__is_terminated(mode: str, limit: int | None) -> None:
    time_step = run(UndecidedSimulator([2, 2, 2]), mode, 2, limit)[-1].time_step
    assert time_step.terminated.all()
    assert not time_step.truncated.any()


def test_masks__exist_as_the_mode_alone_says(mode: str) -> None:
    restarts: list[Any] = []
    advances: list[tuple[bool, bool]] = []

    class AttentiveSimulator(ScriptedSimulator):
        def restart(self, *args: Any) -> Any:
            restarts.append(args)
            return super().restart(*args)

        def advance(self, state: Any, actions: Any, restart: Any, freeze: Any) -> Any:
            advances.append((restart is not None, freeze is not None))
            return super().advance(state, actions, restart, freeze)

    run(AttentiveSimulator([2, 3, 1]), mode, 6)
    assert (advances, len(restarts) - 1) == {
        "NextStep": ([(True, False)] * 6, 0),
        "SameStep": ([(False, False)] * 6, 6),
        "Disabled": ([(False, True)] * 6, 0),
    }[mode]
