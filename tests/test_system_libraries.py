"""Tests that need system packages are skipped without them, or fail where they are required."""

from __future__ import annotations

import pytest

from tests.support.system_libraries import NEEDED, check_libraries


@pytest.mark.parametrize(
    ("is_required", "outcome"), [(False, pytest.skip.Exception), (True, pytest.fail.Exception)]
)
def test_library__that_is_missing_skips_or_fails(
    monkeypatch: pytest.MonkeyPatch, is_required: bool, outcome: type[BaseException]
) -> None:
    monkeypatch.setitem(NEEDED, "needs_qt5", (("libNoSuchLibrary.so.5",), "apt-get install it"))
    with pytest.raises(outcome, match="apt-get install it"):
        check_libraries("needs_qt5", is_required=is_required)
