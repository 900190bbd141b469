"""Checks that repeat the recorded run with one thing changed."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode

from gymbridge.testing.checker.check import RESULTS, Check, find_difference
from gymbridge.testing.checker.driver import Call, Driver
from gymbridge.testing.checker.ledger import Ledger, StoppedError
from gymbridge.testing.checker.rules import Rules
from gymbridge.testing.checker.values import arrays_in, attempt, changed_infos, infos_of, read, same

__all__ = [
    "check_final_values",
    "check_ignored_actions",
    "check_neighbours",
    "check_restarts",
    "check_writes",
]

_NEXT = AutoresetMode.NEXT_STEP

_TRIALS = 6
"""Runs with other actions for some environments."""


def check_ignored_actions(check: Check) -> None:
    """Repeat the run with other actions in the steps that restart episodes."""
    driver = check.driver
    rows = zip(check.policy(), check.policy(1), strict=True)
    policy = (_mix(*row, driver.kinds == "") for row in rows)
    for call, recorded in zip(check.rerun(driver, policy), check.record, strict=False):
        kinds = recorded.kinds
        if not check.expect_same(Rules.NEXT_STEP_ACTION, [call], [recorded], kinds != "", kinds):
            return


def _mix(actions: Sequence[Any], others: Sequence[Any], stays: Iterable[bool]) -> list[Any]:
    """Return the first actions of the environments that stay, and the other ones of the others."""
    rows = zip(actions, others, stays, strict=True)
    return [action if stay else other for action, other, stay in rows]


def check_neighbours(check: Check) -> None:
    """Repeat the run a few times with other actions for every second environment.

    Where nothing but `final_obs` depends on the neighbours, it is wrong in one of the runs.
    """
    changed: list[tuple[Call, Call, int]] = []
    for trial in range(_TRIALS):
        stays = np.arange(check.num_envs) % 2 == trial % 2
        changed += _compare_neighbours(check, stays, check.policy(2 + trial))
    if changed and not check.ledger.is_broken(Rules.INDEPENDENT_EPISODES):
        call, recorded, env = changed[0]
        expect = partial(check.ledger.expect, place=call.at(env), kind=recorded.end_kinds[env])
        expect(Rules.SAME_STEP_FINAL_VALUE, recorded.final_obs[env], call.final_obs[env], False)


def _compare_neighbours(
    check: Check, stays: np.ndarray, others: Iterator[Any]
) -> Iterator[tuple[Call, Call, int]]:
    """Compare the environments whose actions stay, from the first other end of a neighbour on.

    Resets of ended environments, which Disabled needs in other places then, are left out.

    Yields:
        Pairs of calls that differ in `final_obs` alone, and an environment where they do.
    """
    policy = (_mix(*row, stays) for row in zip(check.policy(), others, strict=True))
    calls = (call for call in check.rerun(check.driver, policy) if call.mask is None)
    steps = (call for call in check.record if call.mask is None)
    in_first, have_differed, is_whole = stays.copy(), False, True
    for call, recorded in zip(calls, steps, strict=False):
        if have_differed:
            pair = [call], [recorded]
            # With an end in SameStep, the observation is the next episode's.
            begun = recorded.ended & (check.driver.mode == AutoresetMode.SAME_STEP)
            for rows, parts in ((in_first & ~begun, RESULTS), (in_first & begun, RESULTS[1:])):
                if not check.expect_same(Rules.INDEPENDENT_STEPS, *pair, rows, parts=parts):
                    return
            is_whole = not check.ledger.is_broken(Rules.INDEPENDENT_EPISODES) and check.expect_same(
                Rules.INDEPENDENT_EPISODES, *pair, stays, parts=RESULTS
            )
            for env in np.flatnonzero(stays & is_whole).tolist():
                if not same(call.final_obs[env], recorded.final_obs[env]):
                    yield call, recorded, env
        have_differed |= bool((call.ended != recorded.ended)[~stays].any())
        in_first &= ~recorded.ended
        if not in_first.any() and not is_whole:
            return


def check_restarts(check: Check) -> None:
    """Reset by a mask the environments that the recorded run restarted by itself, and compare."""
    for kind, index in check.first_ends():
        if index + 2 < len(check.record):
            _compare_restart(check, index, kind)


def _compare_restart(check: Check, index: int, kind: str) -> None:
    """Reset after a recorded call in which episodes ended, and compare with the next two."""
    calls = check.replay(check.driver, index + 1)
    mask = calls[-1].end_kinds == kind
    if not mask.any():
        return
    changing = {  # from run to run, such as times
        path
        for call, recorded in zip(calls, check.record, strict=False)
        for env in range(check.num_envs)
        for path in changed_infos(call.infos, recorded.infos, env)
    }
    call, recorded, after = check.driver.reset(mask=mask), *check.record[index + 1 : index + 3]
    if not check.expect_same(Rules.AUTORESET_IS_RESET, [call], [recorded], mask, kind, RESULTS[:1]):
        return
    for env in np.flatnonzero(mask).tolist():
        found, wanted = (
            {path: info for path, info in infos_of(infos, env).items() if path not in changing}
            for infos in (recorded.infos, call.infos)
        )
        if wanted:
            is_kept = found.keys() <= wanted.keys() and same(found, {k: wanted[k] for k in found})
            expect = partial(check.ledger.expect, place=recorded.at(env), kind=kind)
            expect(Rules.AUTORESET_INFOS, wanted, found, is_kept)
    step = check.driver.step(check.actions_of(index + 2))
    check.expect_same(Rules.RESET_MASK_CLEARS, [step], [after], mask, kind)


def check_writes(check: Check) -> None:
    """Repeat the run, and write into every array that it returns."""
    for call, recorded in zip(check.rerun(check.driver), check.record, strict=False):
        if not check.expect_same(Rules.WRITABLE, [call], [recorded]):
            return
        for array in arrays_in(call.returned):
            if isinstance(array, np.ndarray) and array.dtype.kind in "biuf":
                seen = "a writable array" if array.flags.writeable else "a read-only array"
                if check.ledger.expect(Rules.WRITABLE, "a writable array", seen, place=call.place):
                    array[...] = 1
        call.returned = None  # The batch may have written into it.


def check_final_values(check: Check) -> None:
    """Repeat the recorded run in an environment with NextStep, and compare how episodes end.

    There a restart takes one more step, so each environment's steps are counted apart. They are
    compared only as long as both runs are equal up to the step that ends an episode.
    """
    check.ledger.obstacles[Rules.SAME_STEP_FINAL_VALUE.id] = _compare_with_next_step(check)


def _compare_with_next_step(check: Check) -> str:
    """Compare, and return what is in the way if nothing could be compared."""
    for rule in filter(check.ledger.is_broken, (Rules.SEED_REPEATS, Rules.INDEPENDENT_EPISODES)):
        return f"A run with NextStep would differ: `{rule.id}` is broken."
    envs: Any = None
    envs: Any = None
    try:
        envs = _make_reference(check)
        if envs is None:
            return "`make_env` takes no `autoreset_mode`, and there is no spec to build from."
        _compare_finals(check, Driver(envs, Ledger(), (check.progress,)))
    except StoppedError as error:
        return f"The run with NextStep failed: {error.__cause__ or error!r}."
    except Exception as error:  # A factory may know no other mode.
        return f"No environment with NextStep could be built: {error!r}."
    finally:
        if envs is not None:
            attempt(envs.close)
    return "With NextStep, no episode was the same until its end."


def _make_reference(check: Check) -> Any:
    """Return an environment with NextStep from the factory or the spec; None if neither can."""
    if "autoreset_mode" in inspect.signature(check.make_env).parameters:
        return check.make_env(autoreset_mode=_NEXT)
    envs: Any = check.driver.envs
    if envs is not envs.unwrapped or not isinstance(read(envs, "spec"), EnvSpec):
        # A spec does not list wrappers of vectors, so the batch cannot be built from it.
        return None
    spec = copy.deepcopy(envs.spec)
    spec.kwargs.get("vector_kwargs", spec.kwargs)["autoreset_mode"] = _NEXT
    return gym.make_vec(spec, num_envs=check.num_envs)


def _compare_finals(check: Check, driver: Driver) -> None:
    """Play the recorded actions with NextStep, and compare each environment while it is alike."""
    # Per environment, the recorded call to compare with.
    indices = dict.fromkeys(range(check.num_envs), 0)
    rows, actions = check.rows(), [*next(check.policy())]
    call = driver.reset(check.seed)
    while driver.mode == _NEXT:
        indices = {env: at for env, at in indices.items() if _is_alike(check, call, env, at)}
        if not indices:
            return
        for env in indices:
            if not driver.kinds[env]:
                actions[env] = next(rows[env])
                indices[env] += 1
        call = driver.step(actions)


def _is_alike(check: Check, call: Call, env: int, index: int) -> bool:
    """Compare a call with a recorded one; return whether the environment's next can be compared."""
    if index >= len(check.record):
        return False
    recorded, kind = check.record[index], call.end_kinds[env]
    # Other calls begin the same episode as the recorded call.
    if not call.kinds[env] and find_difference(call, recorded, env, RESULTS[1:]):
        return False
    obs, final_obs = call.observations[env], recorded.final_obs[env]
    # Equal but for rounding is not enough, since the difference may grow.
    if not kind:
        return data_equivalence(obs, recorded.observations[env], exact=True)
    expect = partial(check.ledger.expect, place=recorded.at(env), kind=kind)
    return final_obs is None or expect(Rules.SAME_STEP_FINAL_VALUE, obs, final_obs)
