"""Checks of the arguments that `reset` and `step` accept or refuse."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import iterate

from gymbridge.testing.checker.check import Check, goes_on
from gymbridge.testing.checker.driver import Call, Driver
from gymbridge.testing.checker.policy import batch_actions
from gymbridge.testing.checker.rules import Rules
from gymbridge.testing.checker.seeds import mix_seeds
from gymbridge.testing.checker.values import arrays_in, attempt, same, to_numpy

__all__ = [
    "check_action_counts",
    "check_action_list",
    "check_ended",
    "check_mask_errors",
    "check_mask_seeds",
    "check_masks",
    "check_step_before_reset",
]

_SIZES = 32
"""Masks to try; of more environments not every size is tried."""


def check_masks(check: Check) -> None:
    """Reset by masks of every size, and compare with runs that reset no environment and all."""
    num_envs, rng = check.num_envs, np.random.default_rng(check.seed)
    if num_envs < 2:
        return
    sizes = sorted({*np.linspace(1, num_envs, _SIZES, dtype=int).tolist()})
    masks = [rng.permutation(num_envs) < size for size in sizes]
    _compare_masks(check, 1 + min(2, check.num_steps_to_end), masks)
    first_end = 1 + check.num_steps_to_end
    if first_end < len(check.record) and check.driver.mode != AutoresetMode.SAME_STEP:
        _compare_masks(check, 1 + first_end, [check.record[first_end].ended | masks[0]])


def _compare_masks(check: Check, num_calls: int, masks: list[np.ndarray]) -> None:
    whole = _play_reset(check, num_calls, None)
    for mask in masks:
        calls = _play_reset(check, num_calls, mask)
        if not check.ledger.is_broken(Rules.SEED_REPEATS):
            _compare_mask(check, mask, calls, whole, check.record[num_calls - 1 :])


def _play_reset(check: Check, num_calls: int, mask: np.ndarray | None) -> list[Call]:
    """Return a reset after some calls of the recorded run, and the step that follows."""
    driver = check.driver
    check.replay(driver, num_calls)
    calls = [driver.reset(mask=mask)]
    is_aligned = num_calls < len(check.record) and check.record[num_calls].mask is None
    return [*calls, driver.step(check.actions_of(num_calls))] if is_aligned else calls


def _compare_mask(
    check: Check, mask: np.ndarray, calls: list[Call], whole: list[Call], recorded: list[Call]
) -> None:
    """Look which environments go on as in the recorded run: those that the mask leaves out.

    Where a reset of all environments changes nothing, nothing is judged.
    """
    is_independent = not check.ledger.is_broken(Rules.INDEPENDENT_EPISODES)
    names = {True: "an episode that goes on", False: "a new episode"}
    for env, is_reset in enumerate(mask.tolist()):
        if is_reset:
            # Whole numbers may be equal by chance, unless the episode is the same in both runs.
            arrays = arrays_in(calls[0].observations[env])
            is_judged = is_independent or any(array.dtype.kind == "f" for array in arrays)
            is_judged = is_judged and not goes_on(whole, recorded, env)
        else:
            is_judged = not check.ledger.is_broken(Rules.INDEPENDENT_STEPS)
        if is_judged:
            expected, seen = names[not is_reset], names[goes_on(calls, recorded, env)]
            check.ledger.expect(Rules.RESET_MASK, expected, seen, place=calls[0].at(env))


def check_mask_seeds(check: Check) -> None:
    """Reset every second environment by a mask with a seed, and with a list of seeds."""
    driver, mask = check.driver, np.arange(check.num_envs) % 2 == 1
    if check.num_envs < 2:
        return
    for seed in (check.seed, mix_seeds(check)[0]):
        check.replay(driver, 2)
        driver.settle()
        reset = partial(driver.envs.reset, seed=seed, options={"reset_mask": mask.copy()})
        if not check.ledger.is_refused(Rules.RESET_MASK_SEED, reset):
            call = driver.reset(seed, mask, Rules.RESET_MASK_SEED)
            check.expect_same(Rules.RESET_MASK_SEED, [call], check.record, mask)


def check_mask_errors(check: Check) -> None:
    """Reset with masks that must raise an error."""
    num_envs = check.num_envs
    for error, mask, name in (
        (TypeError, [True] * num_envs, "a list"),
        (TypeError, np.ones(num_envs, np.int64), "integers"),
        (ValueError, np.ones(num_envs + 1, np.bool_), "another shape"),
        (ValueError, np.zeros(num_envs, np.bool_), "no True"),
    ):
        expected = f"{error.__name__} for a mask with {name}"
        reset = partial(check.other.envs.reset, options={"reset_mask": mask})
        check.ledger.expect_error(Rules.RESET_MASK_ERRORS, error, expected, reset)


def check_action_list(check: Check) -> None:
    """Step with the first actions of the recorded run as a list."""
    if len(check.record) < 2:
        return
    (first,) = check.replay(check.driver, 1)
    if all(isinstance(array, np.ndarray) for array in arrays_in(first.returned[0])):
        call = check.driver.step(check.actions_of(1), as_list=True, rule=Rules.ACTION_LIST)
        check.expect_same(Rules.ACTION_LIST, [call], check.record[1:])


def check_action_counts(check: Check) -> None:
    """Step with one action too many and one too few, and then repeat the first recorded step."""
    check.replay(check.driver, 1)
    actions, envs = check.actions_of(1), check.driver.envs
    for wrong in ([*actions, actions[0]], actions[:-1]):
        if not wrong or check.ledger.is_broken(Rules.ACTION_COUNT):
            # A batch that takes too many values may end the process with too few.
            return
        step = partial(envs.step, batch_actions(envs.single_action_space, wrong))
        expected = f"an error for {len(wrong)} actions"
        check.ledger.expect_error(Rules.ACTION_COUNT, Exception, expected, step)
    if not check.ledger.is_broken(Rules.SEED_REPEATS) and len(check.record) > 1:
        call = check.driver.step(actions, rule=Rules.REFUSED_STEP)
        check.expect_same(Rules.REFUSED_STEP, [call], check.record[1:])


def check_step_before_reset(check: Check) -> None:
    """Step an environment that was never reset, and that is not used afterwards."""
    actions = batch_actions(check.fresh.single_action_space, check.actions_of(1))
    step, expected = partial(check.fresh.step, actions), "an error that asks for `reset`"
    check.ledger.expect_error(Rules.STEP_BEFORE_RESET, Exception, expected, step)


def check_ended(check: Check) -> None:
    """Step environments that have ended and were not reset, with Disabled."""
    driver = check.other
    driver.settle()
    for kind, index in check.first_ends():
        if isinstance(attempt(driver.envs.reset, seed=check.seed), Exception):
            return  # The error for the first kind closed it, as that of `AsyncVectorEnv`.
        before = check.replay(driver, index + 1)[-1]
        driver.kinds = np.full(check.num_envs, "")
        actions = batch_actions(driver.envs.single_action_space, next(check.policy(3)))
        is_kept, seen = True, attempt(driver.envs.step, actions)
        if not isinstance(seen, Exception):
            is_kept, seen = _is_as_it_was(driver, before, kind, seen)
        expected = "an error, or the same observation with reward 0"
        driver.expect(Rules.ENDED_REFUSED, expected, seen, is_kept, kind=kind)


def _is_as_it_was(driver: Driver, before: Call, kind: str, returned: Any) -> tuple[bool, Any]:
    env = np.argmax(before.end_kinds == kind)
    try:
        obs, rewards, *_ = to_numpy(returned)
        row, reward = [*iterate(driver.observation_space, obs)][env], rewards[env]
        is_kept = same(row, before.observations[env]) and not reward
        return is_kept, f"observation {row} with reward {reward}"
    except Exception:  # The results may have any form.
        return False, returned
