"""Judges of rules that need many episodes, because what a single episode shows may be chance.

A final observation may equal the next initial one by chance, or because the episode ends where all
episodes begin. If every final observation does, and these are several different observations, then
the environment loses its final observations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from gymnasium.vector import AutoresetMode

from gymbridge.testing.checker.driver import Call, Driver
from gymbridge.testing.checker.ledger import Ledger, Place
from gymbridge.testing.checker.rules import Rule, Rules
from gymbridge.testing.checker.values import changed_infos, infos_of, same

__all__ = ["Statistics"]

_ENOUGH = 4
"""Number of different values that must be equal in both places before this counts."""


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
        self._finals = _Pairs(Rules.FINAL_OBSERVATION, text)
        self._infos = _Pairs(Rules.SAME_STEP_INFOS, "infos that differ from `final_info`")
        text = "initial observations that differ from that of `reset`"
        self._initials = _Pairs(Rules.FRESH_STATES, text)
        self._varying: set[str] = set()  # paths of infos

    def judge(self, driver: Driver, call: Call) -> None:
        """Look at one call."""
        before = driver.last
        self.ends.update(kind for kind in call.end_kinds if kind)
        if before is None:
            return
        for env, kind, place, final in _beginnings(driver.mode, before, call):
            self._finals.add(same(final, call.observations[env]), kind, place, final)
        if driver.mode == AutoresetMode.SAME_STEP:
            self._compare_infos(call)
        if call.mask is None and not call.ended[0] and not call.kinds[0]:
            self._varying |= changed_infos(call.infos, before.infos, 0)

    def note_initials(self, mode: AutoresetMode | None, record: list[Call]) -> None:
        """Compare the episodes that the last call of a run begins with those of its `reset`."""
        first, call = record[0].observations, record[-1]
        for env, *_ in _beginnings(mode, record[-2], call) if len(record) > 1 else ():
            initial = call.observations[env]
            self._initials.add(same(initial, first[env]), "", call.at(env), initial)

    @property
    def has_new_draws(self) -> bool:
        """Whether an episode of a run had another initial observation than its `reset`."""
        return "" in self._initials.unlike

    def finish(self, ledger: Ledger) -> None:
        """Record what all runs have shown."""
        for pairs in (self._finals, self._infos, self._initials):
            pairs.enter(ledger)

    def _compare_infos(self, call: Call) -> None:
        final_info = call.infos.get("final_info")
        for env, kind in enumerate(call.end_kinds):
            if kind and isinstance(final_info, Mapping):
                now, final = infos_of(call.infos, env), infos_of(final_info, env)
                shared = now.keys() & final.keys() & self._varying
                seen = {path: now[path] for path in shared}
                if seen:
                    is_equal = same(seen, {path: final[path] for path in shared})
                    self._infos.add(is_equal, kind, call.at(env), seen)


def _beginnings(
    mode: AutoresetMode | None, before: Call, call: Call
) -> Iterator[tuple[int, str, Place, Any]]:
    """Yield each environment that begins an episode after an end: its kind, place and final one."""
    if mode in (None, AutoresetMode.SAME_STEP):
        for env, final in enumerate(call.final_obs):
            if final is not None:
                yield env, call.end_kinds[env], call.at(env), final
    elif (mode == AutoresetMode.NEXT_STEP) == (call.mask is None):
        for env, kind in enumerate(call.kinds):
            if kind and (call.mask is None or call.mask[env]):
                yield env, kind, before.at(env), before.observations[env]
