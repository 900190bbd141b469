"""What reaches the user is numpy, writable and the user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from gymbridge.arrays import jax_to_numpy, own
from gymbridge.episode import Tick
from gymbridge.spaces import cast_space


def make_tick() -> Tick:
    jnp = pytest.importorskip("jax.numpy")
    obs = {"image": jnp.arange(6, dtype=jnp.uint8).reshape(2, 3), "speed": jnp.ones(2)}
    flags = jnp.array([True, False])
    info = {"script": {"total": jnp.arange(2)}, "scale": np.float32(2)}
    return Tick(obs, jnp.ones(2), flags, ~flags, info)


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict | tuple):
        parts = tree.values() if isinstance(tree, dict) else tree
        return [leaf for part in parts for leaf in leaves(part)]
    return [tree]


def test_jax_to_numpy__keeps_structure_dtypes_and_values() -> None:
    tick = make_tick()
    shown = jax_to_numpy(tick)
    assert isinstance(shown, Tick)
    assert shown.obs.keys() == {"image", "speed"}
    assert shown.info["script"]["total"].tolist() == [0, 1]
    assert shown.terminated.tolist() == [True, False]
    for leaf, source in zip(leaves(shown), leaves(tick), strict=True):
        assert type(leaf) is np.ndarray
        assert (leaf.shape, leaf.dtype) == (source.shape, source.dtype)


def test_jax_to_numpy__gives_arrays_whose_change_stays_outside() -> None:
    tick = make_tick()
    shown = jax_to_numpy(tick)
    for leaf in leaves(shown):
        leaf[...] = 0
    assert tick.obs["image"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tick.obs["speed"].tolist() == [1, 1]
    assert tick.terminated.tolist() == [True, False]
    assert tick.info["scale"] == 2


def test_own__hands_on_without_a_copy() -> None:
    tick = Tick(np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2), {"a": np.zeros(2)})
    assert own(tick) is tick


@pytest.mark.parametrize(("low", "high"), [(0, 2**40), (-(2**40), 2**40), (-(2**63), 2**63 - 1)])
def test_cast_space__clips_bounds_that_do_not_fit(low: int, high: int) -> None:
    space = cast_space(spaces.Box(low, high, (2,), np.int64), lambda dtype: np.int32)
    assert space.low.tolist() == [max(low, -(2**31))] * 2
    assert space.high.tolist() == [2**31 - 1] * 2
