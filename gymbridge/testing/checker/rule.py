"""What a rule is, and the ledger that records where each rule was kept or broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from gymnasium.vector import AutoresetMode

from gymbridge.testing.checker.report import Evidence, Result
from gymbridge.testing.checker.values import describe

__all__ = [
    "EXTRA",
    "GYMNASIUM",
    "Ledger",
    "Place",
    "Rule",
    "StoppedError",
    "expect_error",
    "is_refused",
]

GYMNASIUM = "gymnasium"
"""Level of rules that Gymnasium documents, or that all of its own vector environments keep."""

EXTRA = "extra"
"""Level of rules that only `SyncVectorEnv` keeps, or that users expect and Gymnasium does not."""

_END_KINDS = ("termination", "truncation")


class StoppedError(Exception):
    """Raised when a call returns something with which the run cannot be continued."""


class Rule(NamedTuple):
    """A rule for vector environments.

    Attributes:
        id: Its name in reports.
        sentence: The rule in words.
        source: Where Gymnasium 1.4 says or does so. Paths are relative to its package, those with
            ``tests/`` to its repository.
        level: "gymnasium" or "extra".
        of_ends: True if the rule is about ended episodes. Then its outcome is "held" only if both a
            termination and a truncation kept it.
        modes: Autoreset modes to which the rule applies.
        documented_in: The only mode for which Gymnasium documents the rule, or None; in other modes
            it is an extra.
        needs: What there must be for the rule to be reached; "" if every run reaches it.
    """

    id: str
    sentence: str
    source: str
    level: str = GYMNASIUM
    of_ends: bool = False
    modes: tuple[AutoresetMode, ...] = tuple(AutoresetMode)
    documented_in: AutoresetMode | None = None
    needs: str = ""

    def is_asked(self, mode: AutoresetMode | None) -> bool:
        """Return whether the rule applies to environments of that mode; None is an unknown mode."""
        return mode is None or mode in self.modes

    @property
    def missing(self) -> str:
        """Why the rule was not reached, if no run stopped before."""
        return f"Needs {self.needs}." if self.needs else ""

    def level_in(self, mode: AutoresetMode | None) -> str:
        """Return the level of the rule for an environment of that mode."""
        return EXTRA if self.documented_in not in (None, mode) else self.level


class Place(NamedTuple):
    """Where in the run something was seen."""

    seed: int | None = None
    step: int | None = None
    env: int | None = None


class _Entry:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()  # by kind of end; "" for rules of any call
        self.first: Evidence | None = None
        self.violation: Evidence | None = None
        self.obstacle = ""


class Ledger:
    """Counts how often each rule was reached, and keeps the first evidence of each outcome."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._stops: dict[str, None] = {}  # It is a set that keeps its order.

    def expect(
        self,
        rule: Rule,
        is_kept: bool,
        *,
        expected: Any,
        seen: Any,
        place: Place = Place(),  # noqa: B008, since it is immutable
        kind: str = "",
    ) -> bool:
        """Record that a rule was reached and whether it was kept, and return `is_kept`.

        `expected` and `seen` are texts or values. `kind`, for a rule of ends, is "termination" or
        "truncation".
        """
        entry = self._entries.setdefault(rule.id, _Entry())
        entry.counts[kind] += 1
        if entry.first is None or (not is_kept and entry.violation is None):
            seed, step, env = (None if value is None else int(value) for value in place)
            evidence = Evidence(seed, step, env, describe(expected), describe(seen))
            entry.first = entry.first or evidence
            if not is_kept:
                entry.violation = evidence
        return is_kept

    def require(
        self,
        rule: Rule,
        function: Callable[[], Any],
        expected: Any,
        place: Place = Place(),  # noqa: B008, since it is immutable
    ) -> Any:
        """Return what a call returns; if it raises, note that and raise `StoppedError`."""
        try:
            return function()
        except Exception as error:
            self.expect(rule, False, expected=expected, seen=_describe_error(error), place=place)
            raise StoppedError from error

    def note_stop(self, reason: str) -> None:
        """Note why a run could not go on, so that it did not reach what follows."""
        self._stops[f"A run stopped: {reason}."] = None

    def note_obstacle(self, rule: Rule, obstacle: str) -> None:
        """Note why a rule cannot be reached."""
        self._entries.setdefault(rule.id, _Entry()).obstacle = obstacle

    def is_broken(self, rule: Rule) -> bool:
        """Return whether the rule was broken."""
        entry = self._entries.get(rule.id)
        return entry is not None and entry.violation is not None

    def judge(self, rule: Rule, mode: AutoresetMode | None) -> Result:
        """Return the outcome of a rule for an environment of that mode."""
        entry = self._entries.get(rule.id, _Entry())
        missing = [kind for kind in _END_KINDS if rule.of_ends and not entry.counts[kind]]
        if entry.violation is not None:
            outcome, note, evidence = "broken", "", entry.violation
        elif entry.first is None:
            outcome, evidence = "not reached", None
            note = entry.obstacle or " ".join([*filter(None, [rule.missing]), *self._stops])
        elif missing:
            outcome, note = "not reached", f"Kept, but no {missing[0]} was compared."
            evidence = entry.first
        else:
            outcome, note, evidence = "held", "", entry.first
        count = sum(entry.counts.values())
        level = rule.level_in(mode)
        return Result(rule.id, rule.sentence, rule.source, level, outcome, count, evidence, note)


def is_refused(ledger: Ledger, rule: Rule, function: Callable[[], Any]) -> bool:
    """Return whether a call raises; if so, record that the rule, which allows it, was kept."""
    try:
        function()
    except Exception as error:
        seen = _describe_error(error)
        return ledger.expect(rule, True, expected="what the rule says, or an error", seen=seen)
    return False


def expect_error(
    ledger: Ledger,
    rule: Rule,
    function: Callable[[], Any],
    errors: type[Exception] | tuple[type[Exception], ...],
    expected: str,
) -> None:
    """Record whether a call raises one of these errors."""
    try:
        returned = function()
    except errors as error:
        is_kept, seen = True, _describe_error(error)
    except Exception as error:
        is_kept, seen = False, _describe_error(error)
    else:
        is_kept, seen = False, f"no error, but {type(returned).__name__}"
    ledger.expect(rule, is_kept, expected=expected, seen=seen)


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
