"""The autoreset rule and the time limit, on a simulator whose every step is known beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from gymbridge.core.episode import EpisodeRule, ResetRequest, StepResult, TimeStep, split_done
from gymbridge.testing import ScriptedSimulator, draw_number

SEEDS = ResetRequest(np.array([4, 5, 6], np.uint32), np.ones(3, np.bool_))
ALL = np.ones(3, np.bool_)


class UndecidedSimulator(ScriptedSimulator):
    """A scripted simulator that calls every end both terminated and truncated."""

    def _time_step(self, state: Any) -> TimeStep:
        time_step = super()._time_step(state)
        over = time_step.terminated | time_step.truncated
        return time_step._replace(terminated=over, truncated=over)


class MeasuringSimulator(ScriptedSimulator):
    """A scripted simulator with an info that speaks of the step, not of the episode on show."""

    def _time_step(self, state: Any) -> TimeStep:
        time_step = super()._time_step(state)
        return time_step._replace(info={**time_step.info, "nonfinite": time_step.terminated.copy()})


def reset(simulator: ScriptedSimulator, carry: Any, mask: Any, seeds: Any) -> StepResult:
    return EpisodeRule(simulator, AutoresetMode.NEXT_STEP, None).reset(carry, mask, seeds)


def begin(simulator: ScriptedSimulator) -> StepResult:
    return reset(simulator, None, ALL, SEEDS)


def run(
    simulator: ScriptedSimulator, mode: str, steps: int, limit: int | None = None
) -> list[StepResult]:
    rule = EpisodeRule(simulator, AutoresetMode(mode), limit)
    outcomes = [begin(simulator)]
    for _ in range(steps):
        outcomes.append(rule.step(outcomes[-1].carry, np.ones(3, np.int64)))
    return outcomes


def column(outcomes: list[StepResult], field: str, row: int = 0) -> list[Any]:
    return [getattr(outcome.time_step, field)[row].item() for outcome in outcomes]


def test_reset_rule__begins_every_row_without_a_carry() -> None:
    outcome = begin(ScriptedSimulator([2, 3, 4]))
    assert outcome.final is None
    assert outcome.shown.all()
    assert outcome.time_step.obs.tolist() == [0, 0, 0]
    assert outcome.carry.elapsed.tolist() == [0, 0, 0]
    assert outcome.carry.elapsed.dtype == np.int32
    assert not outcome.carry.ended.any()
    assert outcome.time_step.info["draw"].tolist() == draw_number([4, 5, 6], 0).tolist()


def test_reset_rule__touches_rows_under_the_mask_alone() -> None:
    simulator = ScriptedSimulator([3, 3, 2])
    carry = run(simulator, "NextStep", 2)[-1].carry
    assert carry.ended.tolist() == [False, False, True]
    mask = np.array([True, False, False])
    outcome = reset(simulator, carry, mask, ResetRequest(SEEDS.values + 7, mask))
    after = outcome.carry
    assert outcome.shown.tolist() == mask.tolist()
    assert outcome.time_step.obs.tolist() == [0, 2, 2]
    assert after.elapsed.tolist() == [0, 2, 2]
    assert after.ended.tolist() == [False, False, True]  # its restart stays pending
    assert after.state.seed.tolist() == [11, 5, 6]


def test_reset_rule__draws_on_where_no_seed_is_given() -> None:
    simulator = ScriptedSimulator([3, 3, 3])
    seeds = ResetRequest(np.array([9, 9, 9], np.uint32), np.array([True, False, True]))
    mask = np.array([True, True, False])
    state = reset(simulator, begin(simulator).carry, mask, seeds).carry.state
    assert state.seed.tolist() == [9, 5, 6]
    assert state.episode.tolist() == [0, 1, 0]


def test_next_step__time_steps_the_end_and_restarts_one_step_later() -> None:
    outcomes = run(ScriptedSimulator([2, 9, 9]), "NextStep", 4)
    assert column(outcomes, "obs") == [0, 1, 2, 0, 1]
    assert column(outcomes, "terminated") == [False, False, True, False, False]
    assert column(outcomes, "reward") == [0, 1.25, 1.5, 0, 1.25]
    assert [outcome.carry.elapsed[0] for outcome in outcomes] == [0, 1, 2, 0, 1]
    assert all(outcome.final is None for outcome in outcomes)


def test_same_step__time_steps_the_fresh_observation_with_the_flags_of_the_end() -> None:
    outcomes = run(ScriptedSimulator([2, 9, 9]), "SameStep", 3)
    assert column(outcomes, "obs") == [0, 1, 0, 1]
    assert column(outcomes, "terminated") == [False, False, True, False]
    assert column(outcomes, "reward") == [0, 1.25, 1.5, 1.25]
    assert outcomes[2].final is not None
    assert outcomes[2].final.obs.tolist() == [2, 2, 2]
    assert outcomes[2].final.info["script"]["episode"].tolist() == [0, 0, 0]
    assert outcomes[2].time_step.info["script"]["episode"].tolist() == [1, 0, 0]
    assert [outcome.carry.elapsed[0] for outcome in outcomes] == [0, 1, 0, 1]
    assert not any(outcome.carry.ended.any() for outcome in outcomes)


def test_same_step__keeps_infos_of_the_step_from_the_step() -> None:
    outcome = run(MeasuringSimulator([1, 9, 9]), "SameStep", 1)[-1]
    assert outcome.time_step.info["nonfinite"].tolist() == [True, False, False]
    assert outcome.time_step.info["script"]["episode"].tolist() == [1, 0, 0]


def test_disabled__holds_an_ended_row_as_it_is() -> None:
    outcomes = run(ScriptedSimulator([2, 9, 9]), "Disabled", 4)
    assert column(outcomes, "obs") == [0, 1, 2, 2, 2]
    assert column(outcomes, "terminated") == [False, False, True, True, True]
    assert column(outcomes, "reward") == [0, 1.25, 1.5, 0, 0]
    assert column(outcomes, "obs", row=1) == [0, 1, 2, 3, 4]
    assert [outcome.carry.elapsed[0] for outcome in outcomes] == [0, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("length", "cut", "limit", "terminated", "truncated"),
    [
        (2, False, None, True, False),
        (2, True, None, False, True),
        (9, False, 2, False, True),
        (2, False, 2, True, False),  # the tie
        (2, True, 2, False, True),
        (2, False, 3, True, False),
    ],
)
def test_end__is_terminated_or_truncated_never_both(
    mode: str, length: int, cut: bool, limit: int | None, terminated: bool, truncated: bool
) -> None:
    time_step = run(ScriptedSimulator([length] * 3, cut), mode, 2, limit)[-1].time_step
    assert time_step.terminated.tolist() == [terminated] * 3
    assert time_step.truncated.tolist() == [truncated] * 3
    assert time_step.truncated.dtype == np.bool_


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


def test_limit__counts_each_row_s_own_steps() -> None:
    simulator = ScriptedSimulator([9, 9, 9])
    carry = run(simulator, "Disabled", 2, limit=3)[-1].carry
    carry = reset(simulator, carry, np.array([True, False, False]), None).carry
    rule = EpisodeRule(simulator, AutoresetMode.DISABLED, 3)
    outcome = rule.step(carry, np.zeros(3, np.int64))
    assert outcome.carry.elapsed.tolist() == [1, 3, 3]
    assert outcome.time_step.truncated.tolist() == [False, True, True]


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
