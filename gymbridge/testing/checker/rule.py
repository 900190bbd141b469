"""What a rule is, and the ledger that records where each rule was kept or broken."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from gymnasium.vector import AutoresetMode

from gymbridge.testing.checker.report import Evidence, Result
from gymbridge.testing.checker.values import attempt, describe, same

__all__ = ["Ledger", "Place", "Rule", "StoppedError", "extra", "of_next_step", "of_same_step"]

GYMNASIUM = "gymnasium"
"""Level of rules that Gymnasium documents, or that all of its own vector environments keep."""

EXTRA = "extra"
"""Level of rules that only `SyncVectorEnv` keeps, or that users expect and Gymnasium does not."""

_END_KINDS = ("termination", "truncation")


class StoppedError(Exception):
    """Raised when a run cannot go on, with the reason if that matters to other runs."""


class Rule(NamedTuple):
    """A rule for vector environments.

    Attributes:
        id: Its name in reports.
        sentence: The rule in words.
        source: Where Gymnasium 1.4 says or does so. Paths are relative to its package, those with
            ``tests/`` to its repository.
        level: "gymnasium" or "extra".
        of_ends: True if the rule is about ended episodes: its outcome is "held" only if both a
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


extra = partial(Rule, level=EXTRA)
"""Returns a rule of level "extra"; it takes the arguments of `Rule`."""

_of_ends = partial(Rule, of_ends=True, needs="a known autoreset mode and an episode that ends")

of_next_step = partial(_of_ends, modes=(AutoresetMode.NEXT_STEP,))
"""Returns a rule about ends of episodes in NextStep; it takes the arguments of `Rule`."""

of_same_step = partial(_of_ends, modes=(AutoresetMode.SAME_STEP,))
"""Returns a rule about ends of episodes in SameStep; it takes the arguments of `Rule`."""


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
        self,
        rule: Rule,
        expected: Any,
        function: Callable[[], Any],
        place: Place = _NOWHERE,
        reason: str = "",
    ) -> Any:
        """Return what a call returns; an error breaks the rule and raises `StoppedError`."""
        try:
            return function()
        except Exception as error:
            self.expect(rule, expected, error, False, place=place)
            raise StoppedError(reason) from error

    def expect_error(
        self,
        rule: Rule,
        kind: type[Exception],
        expected: str,
        function: Any,
        *args: Any,
        **given: Any,
    ) -> None:
        """Record whether a call raises an error of a kind, as a rule asks for."""
        found = attempt(function, *args, **given)
        seen = found if isinstance(found, Exception) else f"no error, but {type(found).__name__}"
        self.expect(rule, expected, seen, isinstance(found, kind))

    def is_refused(self, rule: Rule, function: Any, *args: Any, **given: Any) -> bool:
        """Return whether a call raises; if so, record that the rule, which allows it, was kept."""
        try:
            function(*args, **given)
        except Exception as error:
            return self.expect(rule, "what the rule says, or an error", error, True)
        return False

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
        missing = [kind for kind in _END_KINDS if rule.of_ends and not counts[kind]]
        if broken:
            outcome = "broken"
        elif not kept:
            needs = [f"Needs {rule.needs}."] if rule.needs else []
            outcome = "not reached"
            note = self.obstacles.get(rule.id) or " ".join([*needs, *self._stops])
        elif missing:
            outcome, note = "not reached", f"Kept, but no {missing[0]} was compared."
        level = EXTRA if rule.documented_in not in (None, mode) else rule.level
        found = level, outcome, counts.total(), broken or kept, note
        return Result(rule.id, rule.sentence, rule.source, *found)
