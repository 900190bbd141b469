"""Infos have the layout that Gymnasium's own vector environments give them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gymbridge.core.infos import make_infos, mask_info
from gymbridge.core.rows import split_rows
from tests.support.strategies import masks
from tests.support.trees import assert_same


class Layout(VectorEnv[Any, Any, np.ndarray]):
    """Gymnasium's own way from infos of single environments to those of a batch."""

    def batch(self, info: dict[str, Any], mask: np.ndarray) -> dict[str, Any]:
        self.num_envs = len(mask)
        infos: dict[str, Any] = {}
        for row in np.flatnonzero(mask):
            infos = self._add_info(infos, take_info(info, row), int(row))
        return infos


def take_info(info: dict[str, Any], row: int) -> dict[str, Any]:
    """Return one environment's infos, with Python's bool: Gymnasium takes numpy's for an object."""

    def take(value: Any) -> Any:
        row_value = take_info(value, row) if isinstance(value, dict) else value[row]
        return bool(row_value) if isinstance(row_value, np.bool_) else row_value

    return {key: take(value) for key, value in info.items()}


@st.composite
def batched_infos(draw: st.DrawFn, num_envs: int) -> dict[str, Any]:
    dtypes = st.sampled_from([np.bool_, np.int32, np.int64, np.uint8, np.float32, np.float64])
    shapes = st.sampled_from([(num_envs,), (num_envs, 2), (num_envs, 2, 1)])
    arrays = st.builds(hnp.arrays, dtypes, shapes).flatmap(lambda strategy: strategy)
    names = st.sampled_from(["a", "b", "c"])
    leaf_level = st.dictionaries(names, arrays, min_size=1)
    return draw(st.dictionaries(names, arrays | leaf_level))


@given(st.data(), st.integers(1, 4))
def test_infos__equal_gymnasium_s_under_any_mask(data: st.DataObject, num_envs: int) -> None:
    info, mask = data.draw(batched_infos(num_envs)), data.draw(masks(num_envs))
    assert_same(make_infos(mask_info(info, mask), mask), Layout().batch(info, mask))


@pytest.mark.parametrize(
    ("space", "batch"),
    [
        (spaces.Box(0, 9, (2,), np.float32), np.ones((3, 2), np.float32)),
        (spaces.Box(0, 9, (), np.float32), np.ones(3, np.float32)),
        (spaces.Discrete(5), np.arange(3)),
        (spaces.MultiBinary(2), np.ones((3, 2), np.int8)),
    ],
    ids=["box", "number", "discrete", "binary"],
)
def test_split_rows__lies_in_the_space_of_one_environment(
    space: spaces.Space[Any], batch: np.ndarray
) -> None:
    (row,) = split_rows(batch, np.array([1]))
    assert space.contains(row)  # a `Box` warns about what is no array
    assert not np.shares_memory(row, batch)


def test_split_rows__of_a_discrete_observation_is_hashable() -> None:
    (row,) = split_rows(np.arange(3), np.array([2]))
    assert {row: "known"} == {2: "known"}
