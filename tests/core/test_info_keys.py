"""Names of infos are read into a set, or refused with what the task has."""

from __future__ import annotations

from typing import Any

import pytest

from gymbridge.core.requests import read_info_keys
from gymbridge.errors import ArgumentError, ArgumentTypeError

KNOWN = ("lives", "speed")


@pytest.mark.parametrize(
    ("info_keys", "read"),
    [
        (None, None),
        ("all", frozenset(KNOWN)),
        ([], frozenset()),
        (["speed"], frozenset({"speed"})),
        ({"lives": 1, "speed": 2}, frozenset(KNOWN)),
    ],
)
def test_read_info_keys__is_a_set_or_none(info_keys: Any, read: Any) -> None:
    found = read_info_keys(info_keys, KNOWN)
    assert found == read
    assert type(found) is type(read)


@pytest.mark.parametrize(
    ("info_keys", "error", "message"),
    [
        ("speed", ArgumentError, r"^`info_keys` must be None, 'all' or a list, got 'speed'\.$"),
        (5, ArgumentTypeError, r"^`info_keys` must be None, 'all' or a list, got 5\.$"),
        (["lives", 3], ArgumentTypeError, r"^`info_keys` must hold names, got 3\.$"),
        (
            ["sped"],
            ArgumentError,
            r"^`info_keys` has 'sped', which is not an info of the task \(PRNG keys are never "
            r"infos\); did you mean 'speed'",
        ),
    ],
)
def test_read_info_keys__refuses(info_keys: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_info_keys(info_keys, KNOWN)
