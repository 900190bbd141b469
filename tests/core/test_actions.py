"""Actions are read into the dtype of their space, or refused before anything moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from gymbridge.core.actions import ActionReader, make_action_reader, make_numpy_reader
from gymbridge.errors import ActionError, ArgumentError, ArgumentTypeError
from tests.support.trees import assert_same

ACTION_SPACES = [
    spaces.Discrete(3),
    spaces.Discrete(3, start=-1),
    spaces.Discrete(3, dtype=np.int32),
    spaces.Discrete(5000),
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

DISCRETE, BOX = spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)
DICT = spaces.Dict(move=DISCRETE, aim=DISCRETE)


def make_reader(space: spaces.Space[Any], num_envs: int) -> ActionReader:
    return make_action_reader(space, (num_envs,), make_numpy_reader)


@pytest.mark.parametrize("space", ACTION_SPACES, ids=str)
def test_action_reader__takes_arrays_and_lists_of_the_space(space: spaces.Space[Any]) -> None:
    batched = batch_space(space, 4)
    batched.seed(0)
    read = make_reader(space, 4)
    for _ in range(20):
        actions = batched.sample()
        assert_same(read(actions), actions)
        assert_same(read(_to_lists(actions)), actions)


def _to_lists(actions: Any) -> Any:
    if isinstance(actions, dict):
        return {key: _to_lists(value) for key, value in actions.items()}
    return list(actions)


@pytest.mark.parametrize(
    ("space", "actions", "dtype"),
    [
        (spaces.Discrete(3), [True, False], np.int64),
        (spaces.Discrete(3), np.arange(4)[::2], np.int64),
        (spaces.Box(-1, 1, (1,), np.float32), np.zeros((2, 1)), np.float32),
        (BOX, np.array([[7, -7]] * 2, np.float32), np.float32),  # the engine may clip them
        (spaces.Box(-1, 1, (1,), np.float32), [[1], [0]], np.float32),
        (spaces.Box(-1, 1, (1,), np.float64), np.zeros((2, 1), np.float32), np.float64),
    ],
)
def test_action_reader__casts_where_nothing_is_lost(space: Any, actions: Any, dtype: Any) -> None:
    read = make_reader(space, 2)(actions)
    assert read.dtype == np.dtype(dtype)
    assert read.tolist() == np.asarray(actions).tolist()


@pytest.mark.parametrize(
    ("space", "actions", "error", "message"),
    [
        (DISCRETE, [0, 3], ActionError, r"must lie in Discrete\(3\) .*got \[0 3\]"),
        (DISCRETE, np.array([0, 3]), ActionError, r"must lie in Discrete\(3\) .*got \[0 3\]"),
        (DISCRETE, [0, -1], ActionError, r"must lie in Discrete\(3\)"),
        (spaces.Discrete(3, start=2), np.array([2, 1]), ActionError, "must lie in"),
        (spaces.Discrete(3, start=2), np.array([0, 1]), ActionError, "must lie in"),
        (spaces.MultiDiscrete([2, 3]), [[1, 2], [2, 0]], ActionError, "must lie in"),
        (spaces.MultiBinary(2), [[0, 1], [2, 0]], ActionError, "must lie in"),
        (spaces.Box(-3, 4, (1,), np.int16), [[5], [0]], ActionError, "must lie in"),
        (DISCRETE, [0, 1, 2], ActionError, r"have shape \(2,\) .one action per env.*got \(3,\)"),
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
        (DICT, [0, 1], ArgumentTypeError, "must"),
        (DICT, {"move": [0, 1]}, ActionError, "must"),
        (DICT, {"move": [0, 1], "aim": [0, 1], "fire": [0, 1]}, ActionError, "must"),
        (DICT, {"move": [0, 1], 2: [0, 1]}, ActionError, "must"),
        (DICT, {"move": [0, 1], "aim": [0, 5]}, ActionError, "must"),
    ],
)
def test_action_reader__refuses(
    space: Any, actions: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"`actions` .*{message}"):
        make_reader(space, 2)(actions)


def test_action_reader__refuses_tensors_that_numpy_cannot_read_in_the_words_of_torch() -> None:
    torch = pytest.importorskip("torch")
    ones = torch.ones(2, 2)
    unreadable = {
        "detach": ones.clone().requires_grad_(),
        "BFloat16": ones.bfloat16(),
        "to_dense": ones.to_sparse(),
        "meta": ones.to("meta"),
        "resolve_neg": torch._neg_view(ones),
    }
    for word, actions in unreadable.items():
        with pytest.raises(ArgumentTypeError, match=rf"numpy can read, got a Tensor: .*{word}"):
            make_reader(BOX, 2)(actions)
    with pytest.raises(ArgumentTypeError, match=r"got a list: .*detach"):
        make_reader(BOX, 2)([ones[0], ones[1].clone().requires_grad_()])


def test_action_reader__refuses_objects_whose_own_conversion_fails() -> None:
    class Broken:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            raise KeyError("no column")

    for actions in (Broken(), [Broken(), Broken()]):
        with pytest.raises(ArgumentTypeError, match=r"numpy can read, got a .*no column"):
            make_reader(BOX, 2)(actions)


def test_action_reader__refuses_jax_arrays_without_values() -> None:
    jax = pytest.importorskip("jax")
    deleted = jax.numpy.zeros((2, 2))
    deleted.delete()
    with pytest.raises(ArgumentTypeError, match=r"got a ArrayImpl: .*deleted.*Pass a numpy array"):
        make_reader(BOX, 2)(deleted)
    with pytest.raises(ArgumentTypeError, match=r"got a \w*Tracer: .*Pass a numpy array"):
        jax.jit(make_reader(BOX, 2))(jax.numpy.zeros((2, 2)))


@pytest.mark.parametrize("num_envs", [2, 500])
@pytest.mark.parametrize("num_actions", [3, 129, 300, 5000, 70_000])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    "given", ["int8", "uint8", "int16", "int32", "int64", "uint64", ">i8", ">i4"]
)
def test_action_reader__finds_one_bad_action_in_any_size(
    num_envs: int, num_actions: int, dtype: Any, given: str
) -> None:
    read = make_reader(spaces.Discrete(num_actions, dtype=dtype), num_envs)
    limits = np.iinfo(given)
    actions = np.full(num_envs, min(num_actions - 1, limits.max), given)
    assert (read(actions) is actions) == (np.dtype(given) == dtype)
    assert read(actions).dtype == dtype
    assert read(actions).tolist() == actions.tolist()
    swapped = int(np.ones(1, given).byteswap()[0])  # in the other byte order it looks like 1
    actions[:] = 0
    for wrong in {num_actions, -1, limits.min, limits.max, swapped}:
        if not limits.min <= wrong <= limits.max or 0 <= wrong < num_actions:
            continue
        actions[-1] = wrong
        with pytest.raises(ActionError, match="`actions` must lie in Discrete"):
            read(actions)


@pytest.mark.parametrize("space", [spaces.Text(4), spaces.Tuple([DISCRETE])], ids=str)
def test_make_action_reader__refuses_spaces_without_arrays(space: Any) -> None:
    with pytest.raises(ArgumentError, match=r"`action_space` must be Box, .*got (Text|Tuple)"):
        make_reader(space, 2)
