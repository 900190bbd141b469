"""One check: its environments, its ledger, and the recorded run that others are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from gymbridge.testing.checker import ends, results
from gymbridge.testing.checker.driver import Call, Driver
from gymbridge.testing.checker.ledger import Ledger
from gymbridge.testing.checker.policy import draw_actions
from gymbridge.testing.checker.progress import Progress
from gymbridge.testing.checker.rules import Rule
from gymbridge.testing.checker.statistics import Statistics
from gymbridge.testing.checker.values import describe, same

__all__ = ["RESULTS", "Check", "find_difference", "goes_on"]

_ENOUGH = 4
"""Ends of each kind after which the recorded run may stop."""

RESULTS = ("observations", "rewards", "terminated", "truncated")
"""What a call returns of each environment, but for infos."""


class Check:
    """What the probes of one check share.

    Attributes:
        driver: Drives the environment that most probes use.
        other: Drives a second environment.
        fresh: A third environment, which nothing has called yet.
        record: Calls of the first run, until enough ends of both kinds were seen.
        other_seed: A seed with other initial observations, or None until one is found.
        progress: Counts the steps of all drivers, and logs how far the check is.
    """

    def __init__(
        self, make_env: Callable[..., Any], made: list[Any], ledger: Ledger, seed: int, steps: int
    ) -> None:
        self.make_env, self.ledger, self.seed, self.steps = make_env, ledger, seed, steps
        self.statistics, self.progress = Statistics(), Progress(steps)
        envs, another, self.fresh = made
        self.driver, self.other = self.drive(envs), self.drive(another)
        self.num_envs: int = envs.num_envs
        self.record: list[Call] = []
        self.other_seed: int | None = None

    def drive(self, envs: Any) -> Driver:
        """Return a driver for an environment, whose calls are judged."""
        judges = (
            results.OwnershipJudge(),
            results.judge_flags,
            results.judge_infos,
            results.judge_partial_reset,
            ends.judge_next_step,
            ends.judge_final_keys,
            ends.LengthJudge(envs),
            self.statistics.judge,
            self.progress,
        )
        return Driver(envs, self.ledger, judges)

    @property
    def num_steps_to_end(self) -> int:
        """Steps of the recorded run before the first that ends an episode."""
        return min((index for _, index in self.first_ends()), default=len(self.record)) - 1

    def rows(self, offset: int = 0) -> list[Iterator[Any]]:
        """Return each environment's actions in the recorded run, or others with an offset."""
        seeds = (self.seed + 1000 * offset + env for env in range(self.num_envs))
        return [draw_actions(self.driver.envs.single_action_space, seed) for seed in seeds]

    def policy(self, offset: int = 0) -> Iterator[tuple[Any, ...]]:
        """Return the actions of each step of the recorded run, or others with an offset."""
        return zip(*self.rows(offset), strict=True)

    def actions_of(self, number: int) -> tuple[Any, ...]:
        """Return the actions of step `number` of the recorded run, from 1."""
        return next(islice(self.policy(), number - 1, None))

    def run_record(self) -> None:
        """Make the first run; record it until ends of both kinds were seen often enough."""
        is_recording, counts = True, self.statistics.ends
        for call in self.driver.play(islice(self.policy(), self.steps), self.seed):
            if is_recording:
                self.record.append(call)
                self.statistics.note_initials(self.driver.mode, self.record)
            is_enough = min(counts["termination"], counts["truncation"]) >= _ENOUGH
            is_recording = is_recording and not (is_enough and not call.ended.any())

    def rerun(self, driver: Driver, policy: Iterator[Any] | None = None) -> Iterator[Call]:
        """Repeat the recorded run, or take as many other actions, and yield each call."""
        num_steps = sum(call.mask is None for call in self.record)
        return driver.play(islice(policy or self.policy(), num_steps), self.seed)

    def replay(self, driver: Driver, num_calls: int) -> list[Call]:
        """Repeat the first calls of the recorded run, and return them."""
        return list(islice(self.rerun(driver), num_calls))

    def first_ends(self) -> Iterator[tuple[str, int]]:
        """Yield each kind of end in the record, and the index of the first call that has it."""
        for kind in ("termination", "truncation"):
            found = (index for index, call in enumerate(self.record) if kind in call.end_kinds)
            yield from ((kind, index) for index in islice(found, 1))

    def expect_same(
        self,
        rule: Rule,
        calls: list[Call],
        recorded: list[Call],
        rows: np.ndarray | None = None,
        kinds: np.ndarray | str = "",
        parts: Sequence[str] = (*RESULTS, "final_obs"),
    ) -> bool:
        """Record whether calls returned what was recorded, but for infos, and return it.

        `rows`, (num_envs,) bool, has the environments to compare, None for all, and `parts` names
        what is compared. For a rule of ends, `kinds` is the kind of end, of all environments or by
        environment.
        """
        chosen = range(self.num_envs) if rows is None else np.flatnonzero(rows).tolist()
        kinds = np.broadcast_to(kinds, self.num_envs)
        for call, other in zip(calls, recorded, strict=False):
            for env in chosen:
                unlike = find_difference(call, other, env, parts)
                found = unlike or (other.observations[env], call.observations[env])
                place, kind = call.at(env), kinds[env]
                self.ledger.expect(rule, *found, unlike is None, place=place, kind=kind)
                if unlike:
                    return False
        return True


def goes_on(calls: Sequence[Call], recorded: Sequence[Call], env: int) -> bool:
    """Return whether an environment returned what it did in the recorded run.

    Of a reset only observations are compared, since it may stand where a step was recorded. Where
    SameStep has begun the next episode, the final observation is compared.
    """
    pairs = zip(calls, recorded, strict=False)
    return not any(find_difference(*pair, env, _list_parts(pair[0], env)) for pair in pairs)


def _list_parts(call: Call, env: int) -> Sequence[str]:
    if call.mask is not None:
        return RESULTS[:1]
    return RESULTS if call.final_obs[env] is None else ("final_obs", *RESULTS[1:])


def find_difference(
    call: Call, other: Call, env: int, parts: Sequence[str]
) -> tuple[str, str] | None:
    """Return the first result of the other call that this one does not repeat, and its own."""
    for name in parts:
        seen, expected = getattr(call, name)[env], getattr(other, name)[env]
        if not same(seen, expected):
            return f"{name} {describe(expected)}", f"{name} {describe(seen)}"
    return None
