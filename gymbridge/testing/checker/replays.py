"""Rules that are checked by repeating the recorded run with one thing changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from gymbridge.testing.checker.calls import Call
from gymbridge.testing.checker.check import Check
from gymbridge.testing.checker.driver import Driver
from gymbridge.testing.checker.rule import EXTRA, Rule
from gymbridge.testing.checker.seeds import REPEATS
from gymbridge.testing.checker.values import arrays_in, infos_of, same

__all__ = ["check_ignored_actions", "check_neighbours", "check_restarts", "check_writes"]

_SYNC = "vector/sync_vector_env.py, `SyncVectorEnv.step`, which calls `Env.reset`"

NEXT_ACTION = Rule(
    "next-step-action",
    "The step after an end ignores the action.",
    "vector/vector_env.py, `AutoresetMode`; tests/vector/test_autoreset_mode.py",
    of_ends=True,
    modes=(AutoresetMode.NEXT_STEP,),
)
INDEPENDENT_STEPS = Rule(
    "independent-steps",
    "The first episode of an environment does not depend on when other environments restart.",
    '"multiple independent copies": vector/vector_env.py, `VectorEnv`',
)
INDEPENDENT_EPISODES = Rule(
    "independent-episodes",
    "No episode of an environment depends on the other environments.",
    "vector/sync_vector_env.py, `SyncVectorEnv`, where each has a random generator of its own",
    EXTRA,
)
AUTORESET_IS_RESET = Rule(
    "autoreset-is-reset",
    "An autoreset begins the same episode that a partial `reset` would begin.",
    _SYNC,
    EXTRA,
    of_ends=True,
    modes=(AutoresetMode.NEXT_STEP,),
)
AUTORESET_INFOS = Rule(
    "autoreset-infos",
    "The step after an end returns the infos that a partial `reset` would return.",
    _SYNC,
    EXTRA,
    of_ends=True,
    modes=(AutoresetMode.NEXT_STEP,),
)
MASK_CLEARS = Rule(
    "reset-mask-clears",
    "A partial `reset` clears a pending restart: the next step takes its action.",
    "vector/sync_vector_env.py, `SyncVectorEnv.reset`",
    EXTRA,
    of_ends=True,
    modes=(AutoresetMode.NEXT_STEP,),
)
WRITABLE = Rule(
    "writable",
    "The caller can write into NumPy results, and this does not change the run.",
    "vector/sync_vector_env.py, `copy=True`",
    EXTRA,
)


_TRIALS = 6
"""Runs with other actions for some environments."""


def check_ignored_actions(check: Check, driver: Driver) -> None:
    """Repeat the run with other actions in the steps that restart episodes."""
    if driver.mode != AutoresetMode.NEXT_STEP or check.ledger.is_broken(REPEATS):
        return
    others = check.policy(1)

    def choose(actions: list[Any], kinds: list[str]) -> list[Any]:
        rows = zip(actions, others(), kinds, strict=True)
        return [other if kind else action for action, other, kind in rows]

    calls = check.replay(driver, choose=choose)
    for call, recorded in zip(calls, check.record, strict=True):
        waiting = np.array([kind != "" for kind in recorded.kinds])
        if not check.expect_same(NEXT_ACTION, [call], [recorded], waiting, recorded.kinds):
            return


def check_neighbours(check: Check, driver: Driver) -> None:
    """Repeat the run a few times with other actions for every second environment."""
    if check.ledger.is_broken(REPEATS):
        return
    for trial in range(_TRIALS):
        stays = np.arange(check.num_envs) % 2 == trial % 2
        others = check.policy(2 + trial)

        def choose(actions: list[Any], kinds: list[str], others=others, stays=stays) -> list[Any]:
            rows = zip(actions, others(), stays, strict=True)
            return [action if stay else other for action, other, stay in rows]

        _compare_neighbours(check, check.rerun(driver, choose=choose), stays)


def _compare_neighbours(check: Check, calls: Iterator[Call], stays: np.ndarray) -> None:
    """Compare the environments whose actions stayed, from the first other end of a neighbour on.

    Resets of ended environments, which DISABLED needs in other places then, are left out.
    """
    in_first, have_differed = stays.copy(), False
    is_whole = not check.ledger.is_broken(INDEPENDENT_EPISODES)
    steps = (call for call in calls if call.mask is None)
    recorded_steps = (call for call in check.record if call.mask is None)
    for call, recorded in zip(steps, recorded_steps, strict=False):
        if have_differed:
            pair = [call], [recorded]
            if not check.expect_same(INDEPENDENT_STEPS, *pair, in_first):
                return
            is_whole = is_whole and check.expect_same(INDEPENDENT_EPISODES, *pair, stays)
        have_differed |= bool((call.ended != recorded.ended)[~stays].any())
        in_first &= ~recorded.ended
        if not in_first.any() and not is_whole:
            return


def check_restarts(check: Check, driver: Driver) -> None:
    """Reset by a mask the environments that the recorded run restarted by itself, and compare."""
    is_broken = check.ledger.is_broken(REPEATS)
    if driver.mode != AutoresetMode.NEXT_STEP or is_broken:
        return
    for kind in ("termination", "truncation"):
        index = check.first_end(kind)
        if index is None or index + 2 >= len(check.record):
            continue
        calls = check.replay(driver, index + 1)
        mask = np.array([found == kind for found in calls[-1].end_kinds])
        if not mask.any():
            continue
        _compare_restart(check, driver, index, mask, kind, _changing_infos(check, calls))


def _changing_infos(check: Check, calls: list[Call]) -> set[str]:
    """Return the paths of infos that differ when the run is repeated, such as times."""
    changing: set[str] = set()
    for call, recorded in zip(calls, check.record, strict=False):
        for env in range(check.num_envs):
            now, then = infos_of(call.infos, env), infos_of(recorded.infos, env)
            changing |= {path for path in now.keys() & then if not same(now[path], then[path])}
    return changing


def _compare_restart(
    check: Check, driver: Driver, index: int, mask: np.ndarray, kind: str, changing: set[str]
) -> None:
    call, recorded = driver.reset(mask=mask), check.record[index + 1]
    kinds = [kind] * check.num_envs
    is_same = check.expect_same(
        AUTORESET_IS_RESET, [call], [recorded], mask, kinds, parts=("observations",)
    )
    if not is_same:
        return
    for env in np.flatnonzero(mask):
        found, wanted = (
            {path: info for path, info in infos_of(infos, int(env)).items() if path not in changing}
            for infos in (recorded.infos, call.infos)
        )
        if wanted:
            check.ledger.expect(
                AUTORESET_INFOS,
                found.keys() <= wanted.keys() and same(found, {k: wanted[k] for k in found}),
                expected=wanted,
                seen=found,
                place=recorded.place._replace(env=int(env)),
                kind=kind,
            )
    actions = check.actions_of(index + 2)
    step = driver.step(actions)
    check.expect_same(MASK_CLEARS, [step], [check.record[index + 2]], mask, kinds)


def check_writes(check: Check, driver: Driver) -> None:
    """Repeat the run, and write into every array that it returns."""
    if check.ledger.is_broken(REPEATS):
        return
    for call, recorded in zip(check.rerun(driver), check.record, strict=False):
        if not check.expect_same(WRITABLE, [call], [recorded]):
            return
        for array in arrays_in(call.returned):
            if isinstance(array, np.ndarray) and array.dtype.kind in "biuf":
                is_writable = array.flags.writeable
                check.ledger.expect(
                    WRITABLE,
                    is_writable,
                    expected="arrays that can be written into",
                    seen="a read-only array",
                    place=call.place,
                )
                if is_writable:
                    array[...] = 1
        call.returned = None  # The batch may have written into it.
