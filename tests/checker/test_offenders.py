"""Each known fault breaks the rules that it should break, and no other."""

from __future__ import annotations

from typing import Any

import offenders_of_ends  # noqa: F401, since it enters offenders
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from offenders import OFFENDERS
from walks import make_walks

from gymbridge.testing import Report, check_vector_env

BROKEN_BY_SYNC = {"options-unchanged", "refused-step", "step-before-reset", "closed-refused"}
"""Extras that `SyncVectorEnv` itself breaks."""


def check(mode: AutoresetMode, **kwargs: Any) -> Report:
    return check_vector_env(lambda: make_walks(mode, **kwargs), steps=120)


def broken(report: Report) -> set[str]:
    return {result.id for result in report.results if result.outcome == "broken"}


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
def test_sync_vector_env__keeps_every_rule(mode: AutoresetMode) -> None:
    report = check(mode)
    assert broken(report) == BROKEN_BY_SYNC
    assert not report.broken
    assert not report.not_reached
    assert {result.outcome for result in report.extras} == {"held", "broken"}
    report.raise_if_broken()


@pytest.mark.filterwarnings("ignore:.*autoreset")
@pytest.mark.parametrize(
    ("kind", "mode", "rules"),
    [pytest.param(*case, id=f"{case[0].__name__}-{case[1].name}") for case in OFFENDERS],
)
def test_offender__breaks_its_rules_alone(
    kind: type[SyncVectorEnv], mode: AutoresetMode, rules: set[str]
) -> None:
    report = check(mode, kind=kind)
    print(report)
    assert broken(report) - BROKEN_BY_SYNC == rules
