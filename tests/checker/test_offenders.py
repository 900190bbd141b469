"""Each known fault breaks the rules that it should break, and no other."""

from __future__ import annotations

import offenders_of_ends  # noqa: F401, since it enters offenders
import offenders_of_ownership  # noqa: F401
import offenders_of_requests  # noqa: F401
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from offenders import OFFENDERS
from walks import make_walks

from gymbridge.testing import Report, check_vector_env

BROKEN_BY_SYNC = {"options-unchanged", "refused-step", "step-before-reset", "closed-refused"}
"""Extras that `SyncVectorEnv` itself breaks."""


def ids(report: Report, outcome: str) -> set[str]:
    """Return the rules with an outcome; a rule that was not reached must say why."""
    assert all(result.note for result in report.results if result.outcome == "not reached")
    return {result.id for result in report.results if result.outcome == outcome}


@pytest.mark.filterwarnings("ignore:.*autoreset")
@pytest.mark.parametrize(
    ("kind", "mode", "rules"),
    [pytest.param(*case, id=f"{case[0].__name__}-{case[1].name}") for case in OFFENDERS],
)
def test_offender__breaks_its_rules_alone(
    kind: type[SyncVectorEnv], mode: AutoresetMode, rules: set[str]
) -> None:
    report = check_vector_env(lambda: make_walks(mode, kind=kind), steps=120)
    print(report)
    assert ids(report, "broken") - BROKEN_BY_SYNC == rules
