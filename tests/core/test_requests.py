"""What a user asks for is read into one form, or refused with what to do instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from hypothesis import given
from hypothesis import strategies as st
from strategies import masks, seeds

from gymbridge.errors import ActionError, ArgumentError, ArgumentTypeError
from gymbridge.requests import (
    make_action_reader,
    read_autoreset_mode,
    read_count,
    read_limit,
    read_options,
    read_seeds,
)

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


@pytest.mark.parametrize(
    ("limit", "task_limit", "in_force"),
    [(None, None, None), (None, 9, 9), (-1, 9, None), (-1, None, None), (3, 9, 3), (12, 9, 12)],
)
def test_read_limit__is_the_user_s_or_the_task_s_or_none(
    limit: int | None, task_limit: int | None, in_force: int | None
) -> None:
    assert read_limit(limit, task_limit) == in_force


@pytest.mark.parametrize("value", [0, -2])
def test_read_limit__tells_what_each_value_means(value: int) -> None:
    with pytest.raises(ArgumentError, match=rf"`max_episode_steps`.*None.*-1 for no.*got {value}"):
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
    seed = data.draw(seeds(num_envs, st.integers(0, LARGEST - 4)))
    values, given_mask = read_seeds(seed, num_envs, LARGEST)
    assert (values.dtype, given_mask.dtype) == (np.uint32, np.bool_)
    expected = [seed + row for row in range(num_envs)] if isinstance(seed, int) else seed
    expected = [None] * num_envs if expected is None else expected
    found = [int(value) if own else None for value, own in zip(values, given_mask, strict=True)]
    assert found == expected


@pytest.mark.parametrize("seed", [np.int64(4), (4, 5), range(4, 6), np.array([4, 5], np.uint8)])
def test_read_seeds__takes_what_is_as_good_as_ints(seed: Any) -> None:
    assert read_seeds(seed, 2, LARGEST).values.tolist() == [4, 5]


@pytest.mark.parametrize("seed", [LARGEST - 1, [LARGEST, 0]])
def test_read_seeds__reaches_the_engine_s_largest(seed: Any) -> None:
    assert LARGEST in read_seeds(seed, 2, LARGEST).values


@pytest.mark.parametrize("seed", [-1, [0, -1], LARGEST, [0, LARGEST + 1], 2**80, [2**80, 0]])
def test_read_seeds__refuses_what_the_engine_cannot_hold(seed: Any) -> None:
    with pytest.raises(ArgumentError, match=rf"`seed` must lie in 0 to {LARGEST} .*got -?\d+"):
        read_seeds(seed, 2, LARGEST)


@pytest.mark.parametrize("seed", [[], [1], [1, 2, 3], np.arange(3)])
def test_read_seeds__refuses_a_list_of_another_length(seed: Any) -> None:
    with pytest.raises(ArgumentError, match=rf"`seed` as a list .* 2 .*got {len(seed)}\."):
        read_seeds(seed, 2, LARGEST)


@pytest.mark.parametrize(
    "seed",
    ["12", b"12", 1.0, True, {1, 2}, [1, 2.0], [True, 1], ["1", 2], np.ones(2), np.array(3)],
    ids=repr,
)
def test_read_seeds__refuses_other_types(seed: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"`seed` must .*got"):
        read_seeds(seed, 2, LARGEST)


@given(masks(3))
def test_read_options__gives_a_copy_of_the_mask_and_leaves_the_caller_s(mask: np.ndarray) -> None:
    options = {"reset_mask": mask}
    found = read_options(options, 3)
    assert found is not None
    assert options.keys() == {"reset_mask"}
    assert options["reset_mask"] is mask
    assert found.tolist() == mask.tolist()
    assert not np.shares_memory(found, mask)


@pytest.mark.parametrize("options", [None, {}])
def test_read_options__without_a_mask_means_all(options: Any) -> None:
    assert read_options(options, 3) is None


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ([True], ArgumentTypeError, "`options` must be a dict, got list"),
        ({"reset_masks": 1}, ArgumentError, "unknown key 'reset_masks'; did you mean 'reset_mask'"),
        ({"x": 1, "reset_mask": np.ones(3, bool)}, ArgumentError, "unknown key 'x'; known: 'reset"),
        ({4: 1}, ArgumentError, "`options` has the unknown key 4"),
        ({"reset_mask": [True] * 3}, ArgumentTypeError, r"`options\['reset_mask'\]` must be a num"),
        ({"reset_mask": None}, ArgumentTypeError, r"`options\['reset_mask'\]` must be a numpy arr"),
        ({"reset_mask": np.ones(2, bool)}, ArgumentError, r"must have shape `\(3,\)`, got \(2,\)"),
        ({"reset_mask": np.ones((3, 1), bool)}, ArgumentError, r"shape `\(3,\)`, got \(3, 1\)"),
        ({"reset_mask": np.ones(3)}, ArgumentTypeError, "must have `dtype=np.bool_`, got float64"),
        ({"reset_mask": np.zeros(3, bool)}, ArgumentError, "must contain a boolean array with at"),
    ],
)
def test_read_options__refuses(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_options(options, 3)


ACTION_SPACES = [
    spaces.Discrete(3),
    spaces.Discrete(3, start=-1),
    spaces.Discrete(3, dtype=np.int32),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [2, 3]]),
    spaces.MultiBinary(3),
    spaces.Box(-1, 1, (2,), np.float32),
    spaces.Box(-1, 1, (2, 2), np.float64),
    spaces.Box(0, 255, (2,), np.uint8),
    spaces.Box(-3, 4, (2,), np.int16),
    spaces.Box(0, 1, (2,), np.bool_),
    spaces.Dict(move=spaces.Discrete(3), aim=spaces.Dict(at=spaces.Box(-1, 1, (2,)))),
]


def same(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool((left == right).all())


@pytest.mark.parametrize("space", ACTION_SPACES, ids=str)
def test_action_reader__takes_arrays_and_lists_of_the_space(space: spaces.Space[Any]) -> None:
    from gymnasium.vector.utils import batch_space

    batched = batch_space(space, 4)
    batched.seed(0)
    read = make_action_reader(space, 4)
    for _ in range(20):
        actions = batched.sample()
        assert batched.contains(read(actions))
        assert same(read(actions), actions)
        assert same(read(_to_lists(actions)), actions)


def _to_lists(actions: Any) -> Any:
    if isinstance(actions, dict):
        return {key: _to_lists(value) for key, value in actions.items()}
    return list(actions)


@pytest.mark.parametrize(
    ("space", "actions", "dtype"),
    [
        (spaces.Discrete(3), np.array([0, 2], np.int8), np.int64),
        (spaces.Discrete(3), np.array([0, 2], np.uint64), np.int64),
        (spaces.Discrete(3), np.array([0, 2], ">i8"), np.int64),
        (spaces.Discrete(3), [True, False], np.int64),
        (spaces.Discrete(3), np.arange(4)[::2], np.int64),
        (spaces.Box(-1, 1, (1,), np.float32), np.zeros((2, 1)), np.float32),
        (spaces.Box(-1, 1, (1,), np.float32), [[1], [0]], np.float32),
        (spaces.Box(-1, 1, (1,), np.float64), np.zeros((2, 1), np.float32), np.float64),
    ],
)
def test_action_reader__casts_where_nothing_is_lost(space: Any, actions: Any, dtype: Any) -> None:
    read = make_action_reader(space, 2)(actions)
    assert read.dtype == np.dtype(dtype)
    assert read.tolist() == np.asarray(actions).tolist()


def test_action_reader__leaves_float_values_to_the_engine_s_clipping() -> None:
    actions = np.array([[7.0], [-7.0]], np.float32)
    assert make_action_reader(spaces.Box(-1, 1, (1,)), 2)(actions).tolist() == [[7], [-7]]


DISCRETE, BOX = spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)


@pytest.mark.parametrize(
    ("space", "actions", "error", "message"),
    [
        (DISCRETE, [0, 3], ActionError, r"must lie in Discrete\(3\) .*got \[0 3\]"),
        (DISCRETE, np.array([0, 3]), ActionError, r"must lie in Discrete\(3\) .*got \[0 3\]"),
        (DISCRETE, np.array([0, -1]), ActionError, r"must lie in Discrete\(3\)"),
        (DISCRETE, [0, -1], ActionError, r"must lie in Discrete\(3\)"),
        (DISCRETE, np.array([0, 2**63], np.uint64), ActionError, r"must lie in Discrete\(3\)"),
        (spaces.Discrete(3, start=5), [5, 0], ActionError, "must lie in"),
        (spaces.MultiDiscrete([2, 3]), [[1, 2], [2, 0]], ActionError, "must lie in"),
        (spaces.MultiBinary(2), [[0, 1], [2, 0]], ActionError, "must lie in"),
        (spaces.Box(-3, 4, (1,), np.int16), [[5], [0]], ActionError, "must lie in"),
        (DISCRETE, [0, 1, 2], ActionError, r"must have shape \(2,\) .*got \(3,\)"),
        (DISCRETE, [[0], [1]], ActionError, r"must have shape \(2,\) .*got \(2, 1\)"),
        (BOX, np.zeros((1, 2)), ActionError, r"must have shape \(2, 2\) .*got \(1, 2\)"),
        (BOX, [[0, 0], [0]], ActionError, "must form one array"),
        (DISCRETE, 1, ArgumentTypeError, r"a batch of shape \(2,\), got the single value 1"),
        (DISCRETE, None, ArgumentTypeError, "got the single value None"),
        (DISCRETE, [0.0, 1.0], ArgumentTypeError, r"must be integers for Discrete\(3\), got float"),
        (DISCRETE, ["0", "1"], ArgumentTypeError, "must be integers"),
        (DISCRETE, [None, 1], ArgumentTypeError, "must be integers"),
        (BOX, np.zeros((2, 2), complex), ArgumentTypeError, "castable to float32.*got complex128"),
        (BOX, [["a", "b"], ["c", "d"]], ArgumentTypeError, "castable to float32"),
    ],
)
def test_action_reader__refuses(
    space: Any, actions: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"`actions` .*{message}"):
        make_action_reader(space, 2)(actions)


@pytest.mark.parametrize(
    ("actions", "error"),
    [
        ([0, 1], ArgumentTypeError),
        ({"move": [0, 1]}, ActionError),
        ({"move": [0, 1], "aim": [0, 1], "fire": [0, 1]}, ActionError),
        ({"move": [0, 1], 2: [0, 1]}, ActionError),
        ({"move": [0, 1], "aim": [0, 5]}, ActionError),
    ],
)
def test_action_reader__refuses_another_dict(actions: Any, error: type[Exception]) -> None:
    space = spaces.Dict(move=spaces.Discrete(3), aim=spaces.Discrete(3))
    with pytest.raises(error, match="`actions` must"):
        make_action_reader(space, 2)(actions)


@pytest.mark.parametrize("space", [spaces.Text(4), spaces.Tuple([DISCRETE])], ids=str)
def test_make_action_reader__refuses_spaces_without_arrays(space: Any) -> None:
    with pytest.raises(ArgumentError, match=r"`action_space` must be Box, .*got (Text|Tuple)"):
        make_action_reader(space, 2)
