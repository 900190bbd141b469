"""Spaces with other dtypes hold the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from gymbridge.core.spaces import cast_space

HALVES = {"int64": "int32", "float64": "float32"}


def halve(dtype: Any) -> Any:
    """Return the dtype in 32 bits for one in 64, as JAX does."""
    return np.dtype(HALVES.get(str(dtype), dtype))


@pytest.mark.parametrize(
    ("space", "halved"),
    [
        (spaces.Discrete(5, start=-2), spaces.Discrete(5, start=-2, dtype=np.int32)),
        (
            spaces.MultiDiscrete([3, 4], start=[1, -2]),
            spaces.MultiDiscrete([3, 4], start=[1, -2], dtype=np.int32),
        ),
        (spaces.Box(-0.5, 0.1, (2,), np.float64), spaces.Box(-0.5, 0.1, (2,), np.float32)),
        (spaces.Box(-7, 2**31 - 1, (), np.int64), spaces.Box(-7, 2**31 - 1, (), np.int32)),
        (spaces.Box(0, 2**40, (2,), np.int64), spaces.Box(0, 2**31 - 1, (2,), np.int32)),
        (
            spaces.Box(-(2**63), 2**63 - 1, (2,), np.int64),
            spaces.Box(-(2**31), 2**31 - 1, (2,), np.int32),
        ),
        (
            spaces.Dict(a=spaces.Discrete(3), b=spaces.Dict(c=spaces.MultiBinary(2))),
            spaces.Dict(
                a=spaces.Discrete(3, dtype=np.int32), b=spaces.Dict(c=spaces.MultiBinary(2))
            ),
        ),
    ],
    ids=["discrete", "multi_discrete", "floats", "ints", "clipped above", "clipped", "dict"],
)
def test_cast_space__keeps_all_but_the_dtype_and_bounds_that_do_not_fit(
    space: Any, halved: Any
) -> None:
    found = cast_space(space, halve)
    assert found == halved
    assert found.dtype == halved.dtype
    if isinstance(halved, spaces.Dict):
        assert found["a"].dtype == np.int32


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(5, dtype=np.int32),
        spaces.Box(0, 255, (2,), np.uint8),
        spaces.MultiBinary(3),
        spaces.Text(4),
    ],
    ids=["int32", "uint8", "binary", "text"],
)
def test_cast_space__gives_a_space_back_that_needs_no_other_dtype(space: Any) -> None:
    assert cast_space(space, halve) is space
