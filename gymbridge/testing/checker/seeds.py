"""Checks of seeds, which repeat the recorded run."""

from __future__ import annotations

import contextlib
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from gymbridge.testing.checker.check import Check
from gymbridge.testing.checker.driver import Call, Driver
from gymbridge.testing.checker.ledger import StoppedError
from gymbridge.testing.checker.rules import Rule, Rules
from gymbridge.testing.checker.values import attempt, same, to_numpy

__all__ = ["check_clearing", "check_seed_forms", "check_seeds", "check_unseeded_reset", "mix_seeds"]

_TRIALS = 6
"""Seeds to try until one has other initial observations."""

_FAR = 2**30 + 7
"""Distance of two seeds that differ in low bits and in high ones, within 31 bits."""

_RESETS = 8
"""Resets without a seed to try until one has other initial observations."""


def check_seeds(check: Check) -> None:
    """Repeat the recorded run in another instance, and look for a seed that gives another one."""
    early = 1 + check.num_steps_to_end  # Up to there, none waits for its restart in between.
    for num_calls in (len(check.record), early, early):
        check.expect_same(Rules.SEED_REPEATS, check.replay(check.other, num_calls), check.record)
    check.other.settle()
    _check_other_seeds(check, check.other)


def _check_other_seeds(check: Check, driver: Driver) -> None:
    """Check whether other seeds give other initial observations, at once or in later resets."""
    first = check.record[0]
    expected = f"other observations than with seed {check.seed}"
    for trial in range(1, _TRIALS):
        other = driver.reset(check.seed + 1000 * trial)
        if not _same_start(other, first):
            check.other_seed = check.seed + 1000 * trial
            seen = other.observations[0]
            check.ledger.expect(Rules.SEED_DIFFERS, expected, seen, True, place=other.place)
            return
    calls, others = (
        [driver.reset(seed), *(driver.reset() for _ in range(_RESETS))]
        for seed in (check.seed, check.seed + 1000)
    )
    varies = any(not _same_start(call, first) for call in calls)
    if varies and all(map(_same_start, calls, others)):
        seen = "the same observations"
        check.ledger.expect(Rules.SEED_DIFFERS, expected, seen, place=others[0].place)


def check_unseeded_reset(check: Check) -> None:
    """Check what `reset()` without a seed does after a seeded one."""
    driver = check.driver
    (first,) = check.replay(driver, 1)
    seeds = (check.seed, tuple(range(check.seed, check.seed + check.num_envs)))
    expected = f"{seeds[0]} or {seeds[1]}"
    for _ in range(2):
        found = attempt(lambda: to_numpy(driver.envs.np_random_seed))
        is_kept = any(same(found, wanted) for wanted in seeds)
        check.ledger.expect(Rules.SEED_RECORDED, expected, found, is_kept, place=first.place)
        driver.reset()
    if check.other_seed is None or not check.statistics.has_new_draws:
        return  # Each `reset` may begin the same episode.
    is_kept = _draws(driver, first) or _draws(driver, driver.reset(check.other_seed))
    expected = "other initial observations than those of the seeded reset"
    seen = expected if is_kept else "the same observations"
    check.ledger.expect(Rules.UNSEEDED_RESET, expected, seen)


def _draws(driver: Driver, first: Call) -> bool:
    """Return whether one of the next resets differs from that call."""
    return any(not _same_start(driver.reset(), first) for _ in range(_RESETS))


def check_clearing(check: Check) -> None:
    """Reset while ended environments wait for their restart."""
    driver = check.driver
    for kind, index in check.first_ends():
        check.replay(driver, index + 1)
        if kind in driver.kinds:  # With SameStep no restart waits.
            again, actions = [driver.reset(check.seed)], check.policy()
            again += map(driver.step, islice(actions, min(2, check.num_steps_to_end)))
            check.expect_same(Rules.RESET_CLEARS_ENDS, again, check.record, kinds=kind)


def check_seed_forms(check: Check) -> None:
    """Try the next seed, a list of seeds, a list with None, and a list of a wrong length."""
    driver, num_envs, ledger = check.driver, check.num_envs, check.ledger
    driver.settle()
    if check.other_seed is not None and num_envs > 1 and not ledger.is_broken(Rules.SEED_REPEATS):
        _check_sequence(check, driver)
    seeds, is_far = mix_seeds(check)
    far = _play_seed(check, driver, check.seed + _FAR)
    calls = _play_seed(check, driver, seeds, Rules.SEED_LIST)
    for rows, others in ((is_far, far), (~is_far, check.record)):
        check.expect_same(Rules.SEED_LIST, calls, others, rows)
    if not ledger.is_broken(Rules.SEED_REPEATS, Rules.UNSEEDED_RESET, Rules.SEED_LIST):
        _check_nones(check, driver, seeds, far[0])
    for length in {max(num_envs - 1, 1), num_envs + 1} - {num_envs}:
        expected = f"a ValueError for {length} seeds"
        reset = partial(driver.envs.reset, seed=[check.seed] * length)
        ledger.expect_error(Rules.SEED_LIST, ValueError, expected, reset)


def mix_seeds(check: Check) -> tuple[list[int], np.ndarray]:
    """Return a list of seeds that is not sorted, and the mask of those that are far.

    The others, of every second environment, are those of the recorded run.
    """
    is_far = np.arange(check.num_envs) % 2 == 0
    return [check.seed + env + int(far) * _FAR for env, far in enumerate(is_far)], is_far


def _play_seed(check: Check, driver: Driver, seed: Any, rule: Rule | None = None) -> list[Call]:
    """Return a reset and the next steps, at most up to the first end of an episode."""
    does_repeat = not check.ledger.is_broken(Rules.SEED_REPEATS)
    num_steps = min(2, 1 + check.num_steps_to_end) if does_repeat else 0
    calls: list[Call] = []
    for call in driver.play(islice(check.policy(), num_steps), seed, rule):
        calls.append(call)
        if call.ended.any():
            break
    driver.settle()
    return calls


def _check_nones(check: Check, driver: Driver, seeds: list[int], far: Call) -> None:
    """Try None for all, for every second environment, and for the others."""
    driver.reset(check.seed)
    second, is_far = driver.reset(), np.arange(check.num_envs) % 2 == 0
    everywhere = np.ones_like(is_far)
    for is_none, others in ((everywhere, far), (~is_far, far), (is_far, check.record[0])):
        given = [None if none else seed for seed, none in zip(seeds, is_none, strict=True)]
        if check.ledger.is_refused(Rules.SEED_LIST_NONE, partial(driver.envs.reset, seed=given)):
            return
        driver.reset(check.seed)
        call = driver.reset(given, rule=Rules.SEED_LIST_NONE)
        check.expect_same(Rules.SEED_LIST_NONE, [call], [second], is_none)
        check.expect_same(Rules.SEED_LIST_NONE, [call], [others], ~is_none)


def _check_sequence(check: Check, driver: Driver) -> None:
    """Compare a seed with the one before it, or with a list where environments are not alike."""
    seed, first = check.seed, check.record[0].observations
    call = driver.reset(seed + 1)
    shifted = call.observations
    is_kept, expected = same(shifted[:-1], first[1:]), first[1]
    if not is_kept:
        seeds = [seed + 1 + env for env in range(check.num_envs)]
        with contextlib.suppress(StoppedError):
            listed = driver.reset(seeds, rule=Rules.SEED_LIST).observations
            is_kept, expected = same(shifted, listed), listed[0]
    check.ledger.expect(Rules.SEED_SEQUENCE, expected, shifted[0], is_kept, place=call.at(0))


def _same_start(left: Call, right: Call) -> bool:
    return same(left.observations, right.observations)
