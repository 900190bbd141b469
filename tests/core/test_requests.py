"""Counts, limits, modes, seeds and options are read into one form, or refused with the rule."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
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
    read_options,
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


@pytest.mark.parametrize("mode", AutoresetMode)
def test_read_autoreset_mode__takes_the_member_and_its_value(mode: AutoresetMode) -> None:
    assert read_autoreset_mode(mode) is mode
    assert read_autoreset_mode(mode.value) is mode


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


def test_read_options__gives_the_values_of_a_masked_array() -> None:
    mask = np.ma.array([True, False, True], mask=[True, False, False])
    found, _ = read_options({"reset_mask": mask}, 3)
    assert type(found) is np.ndarray
    assert found.tolist() == [True, False, True]


@pytest.mark.parametrize("mask", [None, [True, False, True]])
def test_read_options__gives_readers_the_rows(mask: list[bool] | None) -> None:
    options = {"x": 5} if mask is None else {"x": 5, "reset_mask": np.array(mask)}
    asked: list[str] = []
    readers = {"x": lambda value, rows: (value, str(rows)), "y": None}
    found, read = read_options(options, 3, lambda name, array: asked.append(name) or array, readers)
    assert found.tolist() == (mask or [True] * 3)
    assert read == {"x": (5, str(found))}
    assert asked == ([] if mask is None else ["`options['reset_mask']`"])


@pytest.mark.parametrize("options", [None, {}])
def test_read_options__without_a_mask_means_all(options: Any) -> None:
    mask, others = read_options(options, 3)
    assert (mask.tolist(), others) == ([True] * 3, {})


@pytest.mark.skipif(gym.__version__.startswith("1.2."), reason="Gymnasium 1.2 asserts")
@pytest.mark.parametrize(
    "mask",
    [[True] * 3, None, np.ones(2, bool), np.ones((3, 1), bool), np.ones(3), np.zeros(3, bool)],
    ids=["list", "None", "short", "column", "floats", "empty"],
)
def test_bad_mask__has_the_words_of_gymnasium(mask: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as expected:
        gym.make_vec("CartPole-v1", 3, "sync").reset(options={"reset_mask": mask})
    with pytest.raises((TypeError, ValueError)) as seen:
        read_options({"reset_mask": mask}, 3)
    assert str(seen.value) == str(expected.value)


WRONG_VALUES = [
    (read_count, ("num_envs", 0), r"^`num_envs` must be at least 1, got 0\.$"),
    (read_count, ("num_envs", -3), r"`num_envs` must be at least 1, got -3\."),
    (read_ids, ("`env_ids`", np.array([2**64 - 1], np.uint64), 5), rf"got \[{2**64 - 1}\]"),
    (read_ids, ("`env_ids`", np.array([1, 1]), 5), r"got \[1, 1\]"),
    (read_ids, ("`env_ids`", [-1, 4], 5), r"be distinct environments from 0 to 4.*got \[-1, 4\]"),
    (read_ids, ("`env_ids`", np.zeros(0, int), 5), r"from 0 to 4, at least one, got \[\]"),
    (read_limit, (0, 5), r"^`max_episode_steps`.*None.*-1 for no.*got 0"),
    (read_limit, (-2, 5), r"^`max_episode_steps`.*None.*-1 for no.*got -2"),
    *[
        (read_autoreset_mode, (mode,), r"`autoreset_mode` .*'NextStep', 'SameStep', 'Dis")
        for mode in ("NEXT_STEP", "next_step", None, 0, [])
    ],
    *[
        (read_seeds, (seed, 2), r"`seed` must be 0 or more, got -\d+\.")
        for seed in (-1, np.int64(-1), [0, -1], [None, -1], -(2**99))
    ],
    *[  # of which Python does not write out the second
        (read_seeds, (-(2**power) - 1, 2), r"`seed` must be 0 or more, got less than -2\*\*99\.")
        for power in (99, 20_000)
    ],
    *[
        (read_seeds, (seed, 2), rf"`seed` as a list .* 2 .*got {len(seed)}\.")
        for seed in ([], [1], [1, 2, 3], np.arange(3))
    ],
    (
        read_info_keys,
        ("speed", KNOWN),
        r"^`info_keys` must be None, 'all' or a list, got 'speed'\.$",
    ),
    (
        read_info_keys,
        (["sped"], KNOWN),
        r"^`info_keys` has 'sped', which is not an info of the task \(PRNG keys are never infos\); "
        r"did you mean 'speed'",
    ),
    (read_options, ({"reset_masks": 1}, 3), "key 'reset_masks'; did you mean 'reset_mask'"),
    (read_options, ({"x": 1, "reset_mask": np.ones(3, bool)}, 3), "key 'x'; known: 'reset"),
    (read_options, ({4: 1}, 3), "`options` has the unknown key 4"),
]
WRONG_TYPES = [
    *[
        (read_count, ("num_envs", value), rf"^`num_envs` must be an int, got {value!r}\.$")
        for value in (2.0, True, "4", None)
    ],
    *[
        (read_ids, ("`env_ids`", ids, 5), r"`env_ids` must be .*list or array of ints, \(count,\)")
        for ids in (np.int64(1), [[1]], [True], [1.0], [2**70], "1")
    ],
    *[(read_limit, (value, 5), "`max_episode_steps` must be an int") for value in (2.5, "5", True)],
    *[
        (read_seeds, (seed, 2), rf"^`seed` must be None, .* got {type(seed).__name__}\.$")
        for seed in ("12", b"12", 1.0, True, {1, 2}, np.array(3))
    ],
    *[
        (read_seeds, (seed, 2), r"^`seed` must be None or an int, got .*\.$")
        for seed in ([1, 2.0], [True, 1], ["1", 2], np.ones(2))
    ],
    (read_info_keys, (5, KNOWN), r"^`info_keys` must be None, 'all' or a list, got 5\.$"),
    (read_info_keys, (["lives", 3], KNOWN), r"^`info_keys` must hold names, got 3\.$"),
    (read_options, ([True], 3), "`options` must be a dict, got list"),
]


@pytest.mark.parametrize(
    ("error", "read", "given", "message"),
    [
        *[(ArgumentError, *case) for case in WRONG_VALUES],
        *[(ArgumentTypeError, *case) for case in WRONG_TYPES],
    ],
)
def test_request__is_refused_with_its_rule(
    error: type[Exception], read: Any, given: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(error, match=message):
        read(*given)
