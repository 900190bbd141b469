"""What a rule is, and the ledger in which each look at a rule is entered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from gymnasium.vector import AutoresetMode

from gymbridge.testing.checker.report import Evidence, Result
from gymbridge.testing.checker.values import describe

__all__ = ["EXTRA", "GYMNASIUM", "Ledger", "Place", "Rule", "expect_error", "is_refused"]

GYMNASIUM = "gymnasium"
"""Level of what Gymnasium documents for `VectorEnv`, or all of its own vector environments keep."""

EXTRA = "extra"
"""Level of what `SyncVectorEnv` alone keeps, or users expect and Gymnasium does not ask for."""

_END_KINDS = ("termination", "truncation")


class Rule(NamedTuple):
    """A rule.

    Attributes:
        id: Its name in reports.
        sentence: What holds where the rule is kept.
        source: Where Gymnasium 1.4 says or does so. Paths are relative to its package, those with
            ``tests/`` to its repository.
        level: "gymnasium" or "extra".
        of_ends: True if the rule is about ended episodes. It is held only if both terminations and
            truncations were seen to keep it.
        modes: Autoreset modes that it is about; environments of others are not asked.
        documented_in: The only mode for which Gymnasium documents it; in others it is an extra.
    """

    id: str
    sentence: str
    source: str
    level: str = GYMNASIUM
    of_ends: bool = False
    modes: tuple[AutoresetMode, ...] = tuple(AutoresetMode)
    documented_in: AutoresetMode | None = None

    def is_asked(self, mode: AutoresetMode | None) -> bool:
        """Return whether the rule is about environments of that mode, or of an unknown one."""
        return mode is None or mode in self.modes

    def level_in(self, mode: AutoresetMode | None) -> str:
        """Return the level of the rule for an environment of that mode."""
        return EXTRA if self.documented_in not in (None, mode) else self.level


class Place(NamedTuple):
    """Where in the run something was seen."""

    seed: int | None = None
    step: int | None = None
    env: int | None = None


class _Entry:
    """What was seen of one rule."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()  # by kind of end; "" for rules of any call
        self.first: Evidence | None = None
        self.violation: Evidence | None = None


class Ledger:
    """Counts how often each rule was reached, and keeps the first evidence of each outcome."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

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
        """Enter that a rule was reached, and whether it was kept; return that.

        Args:
            rule: The rule.
            is_kept: Whether it was.
            expected: What it asks for, a sentence or a value.
            seen: What was there, a sentence or a value.
            place: Where.
            kind: For a rule of ends, "termination" or "truncation".
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

    def is_broken(self, rule: Rule) -> bool:
        """Return whether the rule was seen to be broken."""
        entry = self._entries.get(rule.id)
        return entry is not None and entry.violation is not None

    def is_held(self, rule: Rule) -> bool:
        """Return whether the rule was reached, in all that it asks for, and never broken."""
        return self.judge(rule, None).outcome == "held"

    def judge(self, rule: Rule, mode: AutoresetMode | None) -> Result:
        """Return the outcome of a rule for an environment of that mode."""
        entry = self._entries.get(rule.id, _Entry())
        missing = [kind for kind in _END_KINDS if rule.of_ends and not entry.counts[kind]]
        if entry.violation is not None:
            outcome, note, evidence = "broken", "", entry.violation
        elif entry.first is None:
            outcome, note, evidence = "not reached", "", None
        elif missing:
            outcome, note = "not reached", f"Kept, but no {missing[0]} was seen."
            evidence = entry.first
        else:
            outcome, note, evidence = "held", "", entry.first
        count = sum(entry.counts.values())
        level = rule.level_in(mode)
        return Result(rule.id, rule.sentence, rule.source, level, outcome, count, evidence, note)


def is_refused(ledger: Ledger, rule: Rule, function: Callable[[], Any]) -> bool:
    """Return whether a call raises, which a rule allows and the ledger then says."""
    try:
        function()
    except Exception as error:
        seen = f"{type(error).__name__}: {error}"
        return ledger.expect(rule, True, expected="that or an error", seen=seen)
    return False


def expect_error(
    ledger: Ledger,
    rule: Rule,
    function: Callable[[], Any],
    errors: type[Exception] | tuple[type[Exception], ...],
    expected: str,
) -> None:
    """Enter whether a call raises one of these errors."""
    try:
        returned = function()
    except errors as error:
        is_kept, seen = True, f"{type(error).__name__}: {error}"
    except Exception as error:
        is_kept, seen = False, f"{type(error).__name__}: {error}"
    else:
        is_kept, seen = False, f"no error, but {type(returned).__name__}"
    ledger.expect(rule, is_kept, expected=expected, seen=seen)
