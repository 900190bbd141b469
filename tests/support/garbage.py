"""Hypothesis strategies: arguments that a batch must refuse, each with its errors."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gymbridge.errors import ActionError, ArgumentError, ArgumentTypeError
from tests.support.batches import to_kind

Errors = frozenset[type[Exception]]

_TYPE, _VALUE, _ACTION = (
    frozenset({error}) for error in (ArgumentTypeError, ArgumentError, ActionError)
)

_OTHER_TYPES = [1.5, math.nan, 2j, True, np.True_, "3", b"3", {}, {"a": 1}, {1}, object(), len, ...]
"""What is neither an array, a list, an int nor None."""


class Huge(int):
    """An int that Python does not write out, which Hypothesis can show."""

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        printer.text(f"Huge of {self.bit_length()} bits")


class Bad(NamedTuple):
    """An argument that is refused."""

    value: Any
    errors: Errors  # any of them is right
    text: str = ""  # for a report, where the value itself says little


def _all(values: list[Any], errors: Errors) -> st.SearchStrategy[Bad]:
    return st.sampled_from(values).map(lambda value: Bad(value, errors))


def _foreign(kind: str, array: np.ndarray) -> list[Any]:
    """Return an array in the kinds of other libraries than that of a batch."""
    others = {"torch", "jax"} - {kind}
    return [to_kind(array, other) for other in sorted(others) if find_spec(other)]


def bad_seeds(num_envs: int) -> st.SearchStrategy[Bad]:
    """Return seeds of a wrong type, below 0, in lists of a wrong length, and with a wrong entry."""
    numbers = st.none() | st.integers(0, 2**70)
    negative = st.integers(max_value=-1) | st.just(Huge(-(2**20_000)))
    entries = st.sampled_from([*_OTHER_TYPES, [1], None]).filter(lambda value: value is not None)

    @st.composite
    def lists(draw: st.DrawFn) -> Bad:
        seeds: list[Any] = draw(st.lists(numbers, min_size=num_envs, max_size=num_envs))
        is_type = draw(st.booleans())
        seeds[draw(st.integers(0, num_envs - 1))] = draw(entries if is_type else negative)
        return Bad(seeds, _TYPE if is_type else _VALUE)

    floats, ints = np.zeros(num_envs), np.zeros(num_envs, np.int64)
    arrays = [floats, floats > 0, ints[:, None], np.array(3), *_foreign("numpy", ints)]
    wrong_length = st.lists(numbers, max_size=2 * num_envs).filter(lambda s: len(s) != num_envs)
    return st.one_of(
        _all([*_OTHER_TYPES, iter([0] * num_envs)], _TYPE),
        _all(arrays, _TYPE),
        negative.map(lambda seed: Bad(seed, _VALUE)),
        wrong_length.map(lambda seeds: Bad(seeds, _VALUE)),
        lists(),
    )


def bad_masks(num_envs: int, kind: str) -> st.SearchStrategy[Bad]:
    """Return masks of a wrong type, shape or dtype, and one without any True."""
    whole = np.ones(num_envs, np.bool_)
    others = [None, 1, whole.tolist(), tuple(whole.tolist()), *_OTHER_TYPES, *_foreign(kind, whole)]
    dtypes = st.sampled_from(["int8", "int64", "uint8", "float32", "complex64", "object", "U1"])
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=2 * num_envs)
    shapes = shapes.filter(lambda shape: shape != (num_envs,))

    def as_arrays(array: np.ndarray, errors: Errors) -> st.SearchStrategy[Bad]:
        kinds = ["numpy"] if array.dtype.kind in "OUc" else ["numpy", kind]
        return st.sampled_from(kinds).map(
            lambda one: Bad(to_kind(array, one), errors, f"{one} {array.dtype} {array.shape}")
        )

    return st.one_of(
        _all(others, _TYPE),
        _all(_valueless_masks(num_envs, kind), _TYPE),
        as_arrays(~whole, _VALUE),
        shapes.flatmap(lambda shape: as_arrays(np.ones(shape, np.bool_), _VALUE)),
        dtypes.flatmap(lambda dtype: as_arrays(whole.astype(dtype), _TYPE)),
        st.builds(lambda shape, dtype: np.ones(shape).astype(dtype), shapes, dtypes).flatmap(
            lambda array: as_arrays(array, _TYPE | _VALUE)
        ),
    )


def _valueless_masks(num_envs: int, kind: str) -> list[Any]:
    """Return arrays of the batch's own kind that cannot be read as a mask."""
    if kind == "torch":
        import torch

        whole = torch.ones(num_envs, dtype=torch.bool)
        return [whole.to("meta"), whole.to_sparse(), torch.nested.nested_tensor([*whole[:, None]])]
    if kind == "jax":
        return [*_dead_arrays(np.ones(num_envs, np.bool_))]
    return [None]


def _dead_arrays(array: np.ndarray) -> list[Any]:
    """Return jax arrays without numbers: one that was deleted, and keys of random streams."""
    import jax

    deleted = jax.numpy.asarray(array) | False if array.dtype == bool else jax.numpy.asarray(array)
    deleted.delete()
    return [deleted, jax.random.split(jax.random.key(0), array.shape)]


def bad_options(num_envs: int, kind: str) -> st.SearchStrategy[Bad]:
    """Return options that are no dict, have unknown keys, or have a mask that is refused."""
    others = [value for value in _OTHER_TYPES if not isinstance(value, dict)]
    keys = st.text(max_size=12) | st.integers(0, 9) | st.none() | st.tuples(st.booleans())
    mask = np.ones(num_envs, np.bool_)
    known = st.sampled_from([{}, {"reset_mask": mask}])
    unknown = st.dictionaries(keys.filter(lambda key: key != "reset_mask"), st.none(), min_size=1)
    return st.one_of(
        _all([[], [mask], 0, *others, mask, *_foreign("numpy", mask)], _TYPE),
        st.builds(lambda one, other: Bad({**one, **other}, _VALUE), known, unknown),
        bad_masks(num_envs, kind).map(lambda bad: bad._replace(value={"reset_mask": bad.value})),
    )


def bad_actions(space: spaces.Space[Any], num_envs: int, kind: str) -> st.SearchStrategy[Bad]:
    """Return batches of actions that are refused for a `Discrete` or a `Box` of floats.

    Args:
        space: The single action space.
        num_envs: Size of the batch.
        kind: Of its arrays.
    """
    assert space.shape is not None
    assert space.dtype is not None
    right, is_box = (num_envs, *space.shape), isinstance(space, spaces.Box)
    good = np.zeros(right, space.dtype)
    deep: Any = 0
    for _ in range(70):  # numpy has at most 64 dimensions
        deep = [deep]
    ragged = [[0.0, 1.0], *[[0.0]] * (num_envs - 1)]
    lists = [good[:-1].tolist(), [*good.tolist(), good[0].tolist()], [], ragged, deep]
    scalars = [None, 0, np.int64(1), *_OTHER_TYPES, good[0, 0] if is_box else good[0]]
    strange = [np.full(right, value).tolist() for value in ("0", None, 1j, 2**70)]
    if is_box:
        strange.pop()  # a large int is a float
    dtypes = ["complex64", "complex128", "O", "U1", "S1", "M8[s]", "m8[s]", "V4"]
    dtypes += [] if is_box else ["float16", "float32", "float64", "longdouble"]
    shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=2 * num_envs)
    inner = right[1:]
    near = [(size, *inner) for size in (0, 1, num_envs - 1, num_envs + 1, 2 * num_envs)]
    shapes = st.sampled_from([*near, (num_envs, 1, 1), (1, *right), right[:1] * 2]) | shapes
    wrong = shapes.filter(lambda shape: shape != right)

    kinds = st.sampled_from(["numpy", kind])
    wrong_shapes = st.builds(
        lambda shape, one: Bad(to_kind(np.zeros(shape, space.dtype), one), _ACTION, one),
        wrong,
        kinds,
    )
    wrong_dtypes = st.sampled_from(dtypes).map(
        lambda dtype: Bad(np.zeros(right).astype("i8").astype(dtype), _TYPE, dtype)
    )
    own = [to_kind(np.zeros((), space.dtype), kind), to_kind(good.astype("complex64"), kind)]
    own += [] if is_box else [to_kind(good.astype(np.float32), kind)]
    every = [wrong_shapes, wrong_dtypes, _all(scalars, _TYPE), _all(own, _TYPE)]
    every += [_all(strange, _TYPE), _all(_valueless_actions(good), _TYPE)]
    if kind == "numpy":
        every.append(_all(lists, _ACTION))
    else:
        every.append(_all([*lists, *_foreign(kind, good), good.tolist()], _TYPE))
    if not is_box and kind == "numpy":
        every.append(_outside(good, int(space.n)))  # pyright: ignore[reportAttributeAccessIssue]
    return st.one_of(every)


def _outside(good: np.ndarray, num_actions: int) -> st.SearchStrategy[Bad]:
    """Return integers with one that lies outside a `Discrete` from 0."""
    numbers = st.integers(num_actions, 2**63 - 1) | st.integers(-(2**63), -1)

    def spoil(number: int, row: int) -> Bad:
        actions = good.astype(np.int64)
        actions[row] = number
        return Bad(actions, _ACTION)

    return st.builds(spoil, numbers, st.integers(0, len(good) - 1))


def _valueless_actions(good: np.ndarray) -> list[Any]:
    """Return arrays of the right shape that hold no numbers, or none that numpy can read."""
    every: list[Any] = [np.array(["0"] * good.size, np.dtypes.StringDType()).reshape(good.shape)]
    if find_spec("torch"):
        import torch

        tensor = torch.from_numpy(good.copy())
        every += [tensor.to_sparse(), torch.empty(good.shape, dtype=torch.bits8)]
        every.append(torch.nested.nested_tensor([*tensor.reshape(len(good), 1)]))
    return every + (_dead_arrays(good) if find_spec("jax") else [])


def bad_states(state: Any) -> st.SearchStrategy[Bad]:
    """Return what `set_state` refuses, made from a good snapshot if there is one."""
    others = [None, {}, [], (), *_OTHER_TYPES]
    every = [_all(others, _TYPE)]
    if state is not None:
        every.append(
            st.sampled_from(sorted(state.leaves)).flatmap(lambda name: _spoilt(state, name))
        )
        every.append(_all([tuple(state), state._replace(seeds=state.seeds[1:])], _VALUE | _TYPE))
        other = state._replace(batch={**state.batch, "num_envs": "8"})
        every.append(_all([other, state._replace(batch={})], _VALUE))
    return st.one_of(every)


def _spoilt(state: Any, name: str) -> st.SearchStrategy[Bad]:
    """Return snapshots with one leaf that does not fit."""
    leaf = np.asarray(state.leaves[name])
    rest = {key: value for key, value in state.leaves.items() if key != name}
    leaves = [rest, {**rest, name: leaf[1:]}, {**rest, name: leaf.astype("complex64")}]
    leaves += [{**state.leaves, "more": leaf}]
    return _all([state._replace(leaves=one) for one in leaves], _VALUE)
