"""Each known fault breaks the rules that it should break, and no other."""

from __future__ import annotations

import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gymbridge.testing import check_vector_env
from tests.support import (
    offenders_of_ends,  # noqa: F401, since it enters offenders
    offenders_of_ownership,  # noqa: F401
    offenders_of_requests,  # noqa: F401
)
from tests.support.offenders import OFFENDERS
from tests.support.walks import BROKEN_BY_SYNC, ids, make_walks


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
