"""What `check_vector_env` found."""

from __future__ import annotations

import dataclasses
import textwrap
from dataclasses import dataclass
from typing import Any

from gymbridge.errors import BrokenRulesError

__all__ = ["Evidence", "Report", "Result"]


@dataclass(frozen=True)
class Evidence:
    """Where a rule was first seen to be kept or broken.

    Attributes:
        seed: Seed of the run, or None outside a run.
        step: Number of the step in that run; 0 is its `reset`.
        env: Index of the environment, or None for all of them.
        expected: What the rule asks for.
        seen: What the environment did.
    """

    seed: int | None
    step: int | None
    env: int | None
    expected: str
    seen: str

    def __str__(self) -> str:
        """Return the evidence as a sentence."""
        known = {"seed": self.seed, "step": self.step, "env": self.env}
        place = ", ".join(f"{name} {value}" for name, value in known.items() if value is not None)
        return f"{place + ': ' if place else ''}expected {self.expected}; seen: {self.seen}"


@dataclass(frozen=True)
class Result:
    """The outcome of one rule.

    Attributes:
        id: Name of the rule.
        sentence: The rule in words.
        source: Where Gymnasium says or does so.
        level: "gymnasium" or "extra".
        outcome: "held", "broken" or "not reached".
        count: How many times the rule was reached.
        evidence: The first violation; without one, the first time that the rule was kept; None if
            the rule was never reached.
        note: Why a rule was not reached: what it needs, what was missing to compare with, the kind
            of end that was not compared, or why a run stopped. Else "".
    """

    id: str
    sentence: str
    source: str
    level: str
    outcome: str
    count: int
    evidence: Evidence | None
    note: str


@dataclass(frozen=True)
class Report:
    """Which rules an environment keeps, which it breaks, and which the run never reached.

    Attributes:
        env: Text of the environment, from ``str(envs)``.
        mode: Its autoreset mode, or None if it declares none.
        seed: First seed of the check.
        steps: Batch steps taken in all runs.
        terminations: Episodes that were seen to end by termination.
        truncations: Episodes that were seen to end by truncation alone.
        results: The outcome of every rule.
    """

    env: str
    mode: str | None
    seed: int
    steps: int
    terminations: int
    truncations: int
    results: tuple[Result, ...]

    @property
    def held(self) -> tuple[Result, ...]:
        """Rules of Gymnasium that were reached and kept."""
        return self._select("held")

    @property
    def broken(self) -> tuple[Result, ...]:
        """Rules of Gymnasium that were broken."""
        return self._select("broken")

    @property
    def not_reached(self) -> tuple[Result, ...]:
        """Rules of Gymnasium that the run could not judge."""
        return self._select("not reached")

    @property
    def extras(self) -> tuple[Result, ...]:
        """All rules that Gymnasium does not ask for, whatever their outcome."""
        return tuple(result for result in self.results if result.level == "extra")

    def raise_if_broken(self) -> None:
        """Raise if a rule of Gymnasium is broken; extras and unreached rules raise nothing.

        Raises:
            BrokenRulesError: With every broken rule and its evidence.
        """
        if self.broken:
            lines = [f"{rule.id}: {rule.sentence} {rule.evidence}" for rule in self.broken]
            noun = "rule" if len(lines) == 1 else "rules"
            raise BrokenRulesError("\n  ".join([f"{self.env} breaks {len(lines)} {noun}:", *lines]))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a dict of values that JSON can hold."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        """Return the report as a table."""
        mode = f", {self.mode}" if self.mode else ""
        ends = f"{self.terminations} terminations and {self.truncations} truncations"
        lines = [f"{self.env}{mode}: {self.steps} steps from seed {self.seed}; saw {ends}"]
        for level in ("gymnasium", "extra"):
            chosen = [result for result in self.results if result.level == level]
            found = [result.outcome for result in chosen]
            counts = [f"{found.count(name)} {name}" for name in ("held", "broken", "not reached")]
            lines += ["", f"level {level}: {', '.join(counts)}"]
            for result in chosen:
                lines += _rows(result)
        return "\n".join(lines)

    def _select(self, outcome: str) -> tuple[Result, ...]:
        chosen = (result for result in self.results if result.outcome == outcome)
        return tuple(result for result in chosen if result.level == "gymnasium")


def _rows(result: Result) -> list[str]:
    rows = [f"  {result.outcome:<12}{result.id:<25}{result.sentence}"]
    more = str(result.evidence) if result.outcome == "broken" else result.note
    indent = " " * 39
    return rows + textwrap.wrap(more, 110, initial_indent=indent, subsequent_indent=indent)
