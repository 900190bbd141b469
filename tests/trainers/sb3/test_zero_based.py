"""Spaces whose integers begin elsewhere begin at 0, and values are shifted both ways."""

from __future__ import annotations

from typing import Any

import pytest
from gymnasium import spaces

pytest.importorskip("stable_baselines3")

from gymbridge.trainers.sb3.zero_based import from_zero, has_offsets, to_zero, zero_based_space

SPACE = spaces.Dict(
    {
        "one": spaces.Discrete(4, start=-2),
        "many": spaces.MultiDiscrete([2, 3], start=[7, 0]),
        "box": spaces.Box(0, 1, (2,)),
        "pair": spaces.Tuple((spaces.Discrete(2, start=5), spaces.Discrete(2))),
    }
)


def test_zero_based_space__holds_the_shifted_values() -> None:
    SPACE.seed(0)
    zero = zero_based_space(SPACE)
    assert not has_offsets(zero)
    for _ in range(20):
        value = SPACE.sample()
        shifted = to_zero(SPACE, value)
        assert zero.contains(shifted)
        assert SPACE.contains(from_zero(SPACE, shifted))
        assert int(shifted["one"]) == int(value["one"]) + 2
        assert shifted["many"].tolist() == (value["many"] - [7, 0]).tolist()
        assert shifted["box"] is value["box"]


@pytest.mark.parametrize(
    "space", [spaces.Discrete(3), spaces.MultiDiscrete([2, 2]), spaces.Box(0, 1), spaces.Text(3)]
)
def test_spaces_from_zero__stay_as_they_are(space: Any) -> None:
    assert zero_based_space(space) is space
    assert not has_offsets(space)
