"""Reset options are read into a mask and further values, or refused with the rule."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gymbridge.core.requests import read_options
from gymbridge.errors import ArgumentError, ArgumentTypeError


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
    assert (None if found is None else found.tolist()) == mask
    assert read == {"x": (5, str(np.array(mask or [True] * 3)))}
    assert asked == ([] if mask is None else ["`options['reset_mask']`"])


@pytest.mark.parametrize("options", [None, {}])
def test_read_options__without_a_mask_means_all(options: Any) -> None:
    assert read_options(options, 3) == (None, {})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ([True], ArgumentTypeError, "`options` must be a dict, got list"),
        ({"reset_masks": 1}, ArgumentError, "unknown key 'reset_masks'; did you mean 'reset_mask'"),
        ({"x": 1, "reset_mask": np.ones(3, bool)}, ArgumentError, "unknown key 'x'; known: 'reset"),
        ({4: 1}, ArgumentError, "`options` has the unknown key 4"),
    ],
)
def test_read_options__refuses(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_options(options, 3)


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
