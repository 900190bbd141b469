"""Hypothesis strategies: what a script, a user's limit and a user's calls can be."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.support.batches import to_kind

Seed = int | list[int | None] | None


class Script(NamedTuple):
    """What a scripted batch is made from."""

    lengths: np.ndarray  # (num_envs, episodes) int
    truncates: np.ndarray  # (num_envs, episodes) bool


class Step(NamedTuple):
    """A call of `step`."""

    actions: np.ndarray  # (num_envs,) int64, 0 to 2


class Reset(NamedTuple):
    """A call of `reset`; of every environment if there is no mask."""

    seed: Seed
    mask: np.ndarray | None  # (num_envs,) bool


@st.composite
def scripts(draw: st.DrawFn, max_envs: int = 5, max_length: int = 4) -> Script:
    """Return tables of short episodes, so that a few calls reach many ends."""
    shape = draw(st.tuples(st.integers(1, max_envs), st.integers(1, 3)))
    lengths = draw(hnp.arrays(np.int64, shape, elements=st.integers(1, max_length)))
    return Script(lengths, draw(hnp.arrays(np.bool_, shape)))


def limits() -> st.SearchStrategy[int | None]:
    """Return time limits about as long as the episodes of `scripts`, or None."""
    return st.none() | st.integers(1, 5)


def masks(num_envs: int) -> st.SearchStrategy[np.ndarray]:
    """Return reset masks, (num_envs,) bool with at least one True."""
    rows = np.arange(num_envs)
    return st.integers(1, 2**num_envs - 1).map(lambda bits: (bits >> rows & 1).astype(np.bool_))


def seeds(num_envs: int, numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Seed]:
    """Return every form that a seed takes: none, one for all, or a list with gaps.

    Args:
        num_envs: Length of the lists.
        numbers: The ints; one for all gives environment i the number plus i.
    """
    entries = st.lists(st.none() | numbers, min_size=num_envs, max_size=num_envs)
    return st.none() | numbers | entries


@st.composite
def calls(draw: st.DrawFn, num_envs: int, numbers: st.SearchStrategy[int]) -> list[Step | Reset]:
    """Return a sequence of calls, mostly steps; `numbers` are the seeds to choose from."""

    def make(number: int) -> Step | Reset:
        if number % 10 < 7:
            return Step(np.random.default_rng(number).integers(0, 3, num_envs))
        mask = masks(num_envs) if number % 10 < 9 else st.none()
        return Reset(draw(seeds(num_envs, numbers)), draw(mask))

    return [
        make(number) for number in draw(st.lists(st.integers(0, 2**16), min_size=12, max_size=25))
    ]


class Actions(NamedTuple):
    """A batch of actions that is taken."""

    given: Any  # an array of any library, or a list
    values: np.ndarray  # what the engine gets


@st.composite
def actions(draw: st.DrawFn, space: spaces.Space[Any], num_envs: int, kind: str) -> Actions:
    """Return actions in every form that a batch takes, for a `Discrete` from 0 or a `Box`.

    Values outside a `Box`, NaN included, are passed on. With torch and jax arrays, those outside a
    `Discrete` are clipped.

    Args:
        draw: Hypothesis's.
        space: The single action space.
        num_envs: Size of the batch.
        kind: Of its arrays.
    """
    shape: Any = (num_envs, *(space.shape or ()))
    if isinstance(space, spaces.Box):
        dtype = draw(st.sampled_from(["float64", "float32", "float16", "int8"]))
        array = values = draw(hnp.arrays(dtype, shape))
    else:
        assert isinstance(space, spaces.Discrete)
        last = int(space.n) - 1
        numbers = st.integers(0, last) if kind == "numpy" else st.integers(-128, 127)
        dtype = draw(st.sampled_from(["int64", "int32", "int8"]))
        array = draw(hnp.arrays(dtype, shape, elements=numbers))
        values = array.clip(0, last)
    forms = {"numpy": lambda: array, kind: lambda: to_kind(array, kind)}
    if kind == "numpy":
        forms |= {"list": array.tolist, "rows": lambda: list(array)}
        forms |= {
            name: lambda name=name: to_kind(array, name)
            for name in ("torch", "jax")
            if find_spec(name)
        }
    return Actions(forms[draw(st.sampled_from(sorted(forms)))](), values)
