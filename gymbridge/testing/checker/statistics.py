"""Rules that need many episodes, because what a single episode shows may be chance.

A final observation may equal the next initial one by chance, or because the episode ends where all
episodes begin. If every final observation does, and these are several different observations, then
the environment loses its final observations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from gymbridge.testing.checker.calls import Call
from gymbridge.testing.checker.driver import Driver
from gymbridge.testing.checker.rule import EXTRA, Ledger, Place, Rule
from gymbridge.testing.checker.values import infos_of, same

__all__ = ["Statistics"]

_ENOUGH = 4
"""Number of different values that must be equal in both places before this counts."""

FINAL_OBSERVATION = Rule(
    "final-observation",
    "The final observation of an episode is returned, and not the next initial one in its place.",
    "vector/vector_env.py, `AutoresetMode`; tests/vector/test_autoreset_mode.py",
    of_ends=True,
    needs="a final observation unlike the next initial one, or four different ones",
)
SAME_STEP_INFOS = Rule(
    "same-step-infos",
    "Outside `final_info`, infos of an environment whose episode ended are those of its new "
    "episode.",
    "vector/sync_vector_env.py, `SyncVectorEnv.step`",
    of_ends=True,
    modes=(AutoresetMode.SAME_STEP,),
    needs="infos unlike those in `final_info`, or four different ones",
)
FRESH_STATES = Rule(
    "fresh-states",
    "If initial observations are random, each new episode draws another one.",
    "vector/sync_vector_env.py, `SyncVectorEnv.step`, which calls `Env.reset`",
    EXTRA,
    needs="a later initial observation unlike the first, or four different ones",
)


class _Pairs:
    """Pairs of values that should differ at least sometimes, by kind of end."""

    def __init__(self, rule: Rule, expected: str) -> None:
        self._rule, self._expected = rule, f"{expected} at least once"
        self._equal: dict[str, list[tuple[Place, Any]]] = defaultdict(list)
        self.unlike: dict[str, tuple[Place, Any]] = {}  # the first ones

    def add(self, is_equal: bool, kind: str, place: Place, seen: Any) -> None:
        known = self._equal[kind]
        if not is_equal:
            self.unlike.setdefault(kind, (place, seen))
        elif len(known) < _ENOUGH and not any(same(seen, value) for _, value in known):
            known.append((place, seen))

    def enter(self, ledger: Ledger) -> None:
        """Record the rule for each kind with a pair that differs, or with enough that are equal."""
        for kind, equal in self._equal.items():
            is_kept = kind in self.unlike
            if is_kept or len(equal) == _ENOUGH:
                place, seen = self.unlike[kind] if is_kept else equal[0]
                ledger.expect(self._rule, self._expected, seen, is_kept, place=place, kind=kind)


class Statistics:
    """What all runs of a check have shown.

    Attributes:
        ends: Number of episodes that ended, by "termination" and "truncation".
    """

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()
        text = "final observations that differ from the next initial ones"
        self._finals = _Pairs(FINAL_OBSERVATION, text)
        self._infos = _Pairs(SAME_STEP_INFOS, "infos that differ from `final_info`")
        text = "initial observations that differ from that of `reset`"
        self._initials = _Pairs(FRESH_STATES, text)
        self._varying: set[str] = set()  # paths of infos

    def judge(self, driver: Driver, call: Call) -> None:
        """Look at one call."""
        before = driver.last
        self.ends.update(kind for kind in call.end_kinds if kind)
        if driver.mode is None or before is None:
            return
        if driver.mode == AutoresetMode.SAME_STEP:
            self._compare_same_step(call)
        else:
            self._compare_next_call(driver, call, before)
        if call.mask is None and not call.ended[0] and not call.kinds[0]:
            self._note_changes(call, before)

    def note_initials(self, first: Call, call: Call) -> None:
        """Compare initial observations of later episodes of a run with those of its `reset`."""
        for env in _begun(call):
            is_equal = same(call.observations[env], first.observations[env])
            self._initials.add(is_equal, "", call.at(env), call.observations[env])

    @property
    def has_new_draws(self) -> bool:
        """Whether an episode of a run had another initial observation than its `reset`."""
        return "" in self._initials.unlike

    def finish(self, ledger: Ledger) -> None:
        """Record what all runs have shown."""
        for pairs in (self._finals, self._infos, self._initials):
            pairs.enter(ledger)

    def _compare_same_step(self, call: Call) -> None:
        final_info = call.infos.get("final_info")
        for env, kind in enumerate(call.end_kinds):
            if not kind:
                continue
            place, final_obs = call.at(env), call.final_obs[env]
            if final_obs is not None:
                is_equal = same(final_obs, call.observations[env])
                self._finals.add(is_equal, kind, place, final_obs)
            if isinstance(final_info, Mapping):
                now, final = infos_of(call.infos, env), infos_of(final_info, env)
                shared = now.keys() & final.keys() & self._varying
                is_equal = all(same(now[path], final[path]) for path in shared)
                if shared:
                    self._infos.add(is_equal, kind, place, {path: now[path] for path in shared})

    def _compare_next_call(self, driver: Driver, call: Call, before: Call) -> None:
        beginner = AutoresetMode.NEXT_STEP if call.mask is None else AutoresetMode.DISABLED
        if driver.mode != beginner:
            return
        for env, kind in enumerate(call.kinds):
            if kind and (call.mask is None or call.mask[env]):
                final = before.observations[env]
                is_equal = same(final, call.observations[env])
                self._finals.add(is_equal, kind, before.at(env), final)

    def _note_changes(self, call: Call, before: Call) -> None:
        then = infos_of(before.infos, 0)
        for path, value in infos_of(call.infos, 0).items():
            if path in then and not same(value, then[path]):
                self._varying.add(path)


def _begun(call: Call) -> np.ndarray:
    """Return the environments that a step or a partial reset began anew."""
    if call.mask is not None:
        return np.flatnonzero(call.waiting & call.mask)
    return np.flatnonzero(call.waiting | (call.ended if "final_obs" in call.infos else False))
