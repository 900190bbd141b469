"""The ledger of a check, which records where each rule was kept or broken."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from gymnasium.vector import AutoresetMode

from gymbridge.testing.checker.report import Evidence, Result
from gymbridge.testing.checker.rules import Rule
from gymbridge.testing.checker.values import attempt, describe, same

__all__ = ["Ledger", "Place", "StoppedError"]


class StoppedError(Exception):
    """Raised when a run cannot go on, with the reason if that matters to other runs."""


class Place(NamedTuple):
    """Where in the run something was seen."""

    seed: int | None = None
    step: int | None = None
    env: int | None = None


_NOWHERE = Place()


class Ledger:
    """Counts how often each rule was reached, and keeps the first evidence of each outcome.

    Attributes:
        obstacles: Why a rule cannot be reached, by its id.
    """

    def __init__(self) -> None:
        self.obstacles: dict[str, str] = {}
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)  # by kind of end, if any
        self._kept: dict[str, Evidence] = {}
        self._broken: dict[str, Evidence] = {}
        self._stops: dict[str, None] = {}  # It is a set that keeps its order.

    def expect(
        self,
        rule: Rule,
        expected: Any,
        seen: Any,
        is_kept: bool | None = None,
        *,
        place: Place = _NOWHERE,
        kind: str = "",
    ) -> bool:
        """Record that a rule was reached and whether it was kept, and return that.

        `expected` and `seen` are texts or values. If `is_kept` is None, the rule asks that they are
        equal. For a rule of ends, `kind` is "termination" or "truncation".
        """
        is_kept = same(expected, seen) if is_kept is None else is_kept
        self._counts[rule.id][kind] += 1
        found = self._kept if is_kept else self._broken
        if rule.id not in found:
            found[rule.id] = Evidence(*place, describe(expected), describe(seen))
        return is_kept

    def require(
        self, rule: Rule, expected: Any, function: Callable[[], Any], place: Place = _NOWHERE
    ) -> Any:
        """Return what a call returns; an error breaks the rule and raises `StoppedError`."""
        try:
            return function()
        except Exception as error:
            self.expect(rule, expected, error, False, place=place)
            raise StoppedError from error

    def expect_error(
        self, rule: Rule, kind: type[Exception], expected: str, function: Callable[[], Any]
    ) -> None:
        """Record whether a call raises an error of a kind, as a rule asks for."""
        found = attempt(function)
        seen = found if isinstance(found, Exception) else f"no error, but {type(found).__name__}"
        self.expect(rule, expected, seen, isinstance(found, kind))

    def is_refused(self, rule: Rule, function: Callable[[], Any]) -> bool:
        """Return whether a call raises; if so, record that the rule, which allows it, was kept."""
        found = attempt(function)
        is_error = isinstance(found, Exception)
        return is_error and self.expect(rule, "what the rule says, or an error", found, True)

    def note_stop(self, reason: str) -> None:
        """Note why a run could not go on, so that it did not reach what follows; "" for none."""
        if reason:
            self._stops[f"A run stopped: {reason}."] = None

    def is_broken(self, *rules: Rule) -> bool:
        """Return whether one of the rules was broken."""
        return any(rule.id in self._broken for rule in rules)

    def judge(self, rule: Rule, mode: AutoresetMode | None) -> Result:
        """Return the outcome of a rule for an environment of that mode."""
        kept, broken = self._kept.get(rule.id), self._broken.get(rule.id)
        counts, outcome, note = self._counts[rule.id], "held", ""
        kinds = ("termination", "truncation") if rule.of_ends else ()
        missing = [kind for kind in kinds if not counts[kind]]
        if broken:
            outcome = "broken"
        elif not kept:
            needs = [f"Needs {rule.needs}."] if rule.needs else []
            outcome = "not reached"
            note = self.obstacles.get(rule.id) or " ".join([*needs, *self._stops])
        elif missing:
            outcome, note = "not reached", f"Kept, but no {missing[0]} was compared."
        level = "extra" if rule.documented_in not in (None, mode) else rule.level
        found = level, outcome, counts.total(), broken or kept, note
        return Result(rule.id, rule.sentence, rule.source, *found)
