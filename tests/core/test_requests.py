"""Counts, limits, modes, seeds and options are read into one form, or refused with the rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import given
from hypothesis import strategies as st

from gymbridge.core.requests import (
    draw_seeds,
    read_autoreset_mode,
    read_count,
    read_ids,
    read_info_keys,
    read_limit,
    read_seeds,
)
from gymbridge.errors import ArgumentError, ArgumentTypeError
from tests.support.strategies import seeds

LARGEST = 2**31 - 1


@pytest.mark.parametrize("value", [1, 7, np.int64(3), np.uint8(3)])
def test_read_count__takes_any_integer_from_one(value: Any) -> None:
    count = read_count("num_envs", value)
    assert type(count) is int
    assert count == value


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0, ArgumentError, r"`num_envs` must be at least 1, got 0\."),
        (-3, ArgumentError, r"`num_envs` must be at least 1, got -3\."),
        (2.0, ArgumentTypeError, r"`num_envs` must be an int, got 2\.0\."),
        (True, ArgumentTypeError, r"`num_envs` must be an int, got True\."),
        ("4", ArgumentTypeError, r"`num_envs` must be an int, got '4'\."),
        (None, ArgumentTypeError, r"`num_envs` must be an int, got None\."),
    ],
)
def test_read_count__refuses_the_rest(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_count("num_envs", value)


@given(
    st.lists(st.integers(-9, 9) | st.integers(-(2**63), 2**63 - 1), max_size=6),
    st.sampled_from([list, np.array, lambda ids: np.array([*ids, 0], ">i8")[:-1]]),
)
def test_read_ids__takes_different_environments(ids: list[int], give: Any) -> None:
    is_good = bool(ids) and len(set(ids)) == len(ids) and set(ids) <= set(range(5))
    if is_good:
        rows = read_ids("`env_ids`", give(ids), 5)
        assert rows.dtype == np.intp
        assert rows.tolist() == ids
    else:
        with pytest.raises((ArgumentError, ArgumentTypeError), match=r"^`env_ids` must be"):
            read_ids("`env_ids`", give(ids), 5)


@pytest.mark.parametrize("kind", ["i1", "u1", "u4", "u8"])
def test_read_ids__copies_any_kind_of_integers(kind: str) -> None:
    ids = np.array([3, 0, 2, 1], kind)
    rows = read_ids("`env_ids`", ids[::2], 4)
    ids[:] = 1
    assert rows.tolist() == [3, 2]


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        (np.array([2**64 - 1], np.uint64), ArgumentError, rf"at least one, got \[{2**64 - 1}\]"),
        (np.array([1, 1]), ArgumentError, r"got \[1, 1\]"),
        ([-1, 4], ArgumentError, r"must be distinct environments from 0 to 4.*got \[-1, 4\]"),
        (np.zeros(0, int), ArgumentError, r"from 0 to 4, at least one, got \[\]"),
        (np.int64(1), ArgumentTypeError, r"list or array of ints, \(count,\)"),
        ([[1]], ArgumentTypeError, r"list or array of ints"),
        ([True], ArgumentTypeError, r"list or array of ints"),
        ([1.0], ArgumentTypeError, r"list or array of ints"),
        ([2**70], ArgumentTypeError, r"list or array of ints"),
        ("1", ArgumentTypeError, r"list or array of ints"),
    ],
)
def test_read_ids__refuses(ids: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_ids("`env_ids`", ids, 5)


@pytest.mark.parametrize(
    ("limit", "task_limit", "in_force"),
    [
        *[(None, None, None), (None, 9, 9), (-1, 9, None), (-1, None, None)],
        *[(3, 9, 3), (12, 9, 12), (LARGEST, 9, LARGEST), (2**31, 9, None)],
        *[(None, LARGEST, LARGEST), (None, 2**31, None)],
    ],
)
def test_read_limit__is_the_user_s_or_the_task_s_or_none(
    limit: int | None, task_limit: int | None, in_force: int | None
) -> None:
    assert read_limit(limit, task_limit) == in_force


@pytest.mark.parametrize("value", [0, -2])
def test_read_limit__tells_what_each_value_means(value: int) -> None:
    with pytest.raises(ArgumentError, match=rf"^`max_episode_steps`.*None.*-1 for no.*got {value}"):
        read_limit(value, 5)


@pytest.mark.parametrize("value", [2.5, "5", True])
def test_read_limit__refuses_other_types(value: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"`max_episode_steps` must be an int"):
        read_limit(value, 5)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_read_autoreset_mode__takes_the_member_and_its_value(mode: AutoresetMode) -> None:
    assert read_autoreset_mode(mode) is mode
    assert read_autoreset_mode(mode.value) is mode


@pytest.mark.parametrize("value", ["NEXT_STEP", "next_step", None, 0, []])
def test_read_autoreset_mode__names_the_values(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"`autoreset_mode` .*'NextStep', 'SameStep', 'Dis"):
        read_autoreset_mode(value)


@given(st.data(), st.integers(1, 4))
def test_read_seeds__gives_each_environment_its_own(data: st.DataObject, num_envs: int) -> None:
    seed = data.draw(seeds(num_envs, st.integers(0, 2**80)))
    expected = [seed + row for row in range(num_envs)] if isinstance(seed, int) else seed
    expected = [None] * num_envs if expected is None else expected
    assert read_seeds(seed, num_envs) == expected


@pytest.mark.parametrize(
    "seed", [np.int64(4), (4, 5), range(4, 6), np.array([4, 5], np.uint8), [np.uint32(4), 5]]
)
def test_read_seeds__takes_what_is_as_good_as_ints(seed: Any) -> None:
    found = read_seeds(seed, 2)
    assert found == [4, 5]
    assert [type(entry) for entry in found] == [int, int]


@pytest.mark.parametrize("seed", [-1, np.int64(-1), [0, -1], [None, -1], -(2**99)], ids=repr)
def test_read_seeds__refuses_negative_ones(seed: Any) -> None:
    with pytest.raises(ArgumentError, match=r"`seed` must be 0 or more, got -\d+\."):
        read_seeds(seed, 2)


@pytest.mark.parametrize("power", [99, 20_000])
def test_read_seeds__refuses_one_that_python_does_not_write_out(power: int) -> None:
    with pytest.raises(ArgumentError, match=r"^`seed` must be 0 or more, got less than -2\*\*99\."):
        read_seeds(-(2**power) - 1, 2)


@pytest.mark.parametrize("seed", [[], [1], [1, 2, 3], np.arange(3)])
def test_read_seeds__refuses_a_list_of_another_length(seed: Any) -> None:
    with pytest.raises(ArgumentError, match=rf"`seed` as a list .* 2 .*got {len(seed)}\."):
        read_seeds(seed, 2)


@pytest.mark.parametrize(
    "seed",
    ["12", b"12", 1.0, True, {1, 2}, [1, 2.0], [True, 1], ["1", 2], np.ones(2), np.array(3)],
    ids=repr,
)
def test_read_seeds__refuses_other_types(seed: Any) -> None:
    received = rf"(be None, .* got {type(seed).__name__}|be None or an int, got .*)"
    with pytest.raises(ArgumentTypeError, match=rf"^`seed` must {received}\.$"):
        read_seeds(seed, 2)


def test_draw_seeds__count_up_within_the_range() -> None:
    drawn = {draw_seeds(3, 5) for _ in range(99)}
    assert len(drawn) > 1
    for first, *rest in drawn:
        assert type(first) is int
        assert rest == [first + 1, first + 2]
        assert 0 <= first <= 5 - 2


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
