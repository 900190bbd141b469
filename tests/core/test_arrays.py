"""What reaches the user is numpy, writable and the user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gymbridge.core.arrays import make_numpy_adapter
from gymbridge.core.arrays.adapter import fetch_together, jax_to_numpy
from gymbridge.core.devices import Device
from gymbridge.core.episode import TimeStep
from tests.support.batches import leaves


def make_tick() -> TimeStep:
    jnp = pytest.importorskip("jax.numpy")
    obs = {"image": jnp.arange(6, dtype=jnp.uint8).reshape(2, 3), "speed": jnp.ones(2)}
    flags = jnp.array([True, False])
    info = {"script": {"total": jnp.arange(2)}, "scale": np.float32(2)}
    return TimeStep(obs, jnp.ones(2), flags, ~flags, info)


@pytest.mark.parametrize("convert", [jax_to_numpy, fetch_together])
def test_jax_to_numpy__gives_equal_arrays_whose_change_stays_outside(convert: Any) -> None:
    time_step = make_tick()
    shown = convert(time_step)
    assert isinstance(shown, TimeStep)
    assert shown.obs.keys() == {"image", "speed"}
    assert shown.info["script"]["total"].tolist() == [0, 1]
    for leaf, source in zip(leaves(shown), leaves(time_step), strict=True):
        assert type(leaf) is np.ndarray
        assert (leaf.shape, leaf.dtype) == (source.shape, source.dtype)
        assert leaf.tolist() == source.tolist()
        leaf[...] = 0
    assert time_step.obs["image"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert time_step.obs["speed"].tolist() == [1, 1]
    assert time_step.terminated.tolist() == [True, False]
    assert time_step.info["scale"] == 2


def test_fetch_together__asks_for_all_before_it_waits_for_one() -> None:
    calls: list[str] = []

    class Distant:
        """An array on an accelerator."""

        def copy_to_host_async(self) -> None:
            calls.append("ask")

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
            calls.append("wait")
            return np.ones(2)

    shown = fetch_together(
        {"a": Distant(), "b": {"x": Distant(), "y": Distant()}, "c": np.float32(2)}
    )
    assert calls == ["ask"] * 3 + ["wait"] * 3
    assert shown["b"]["y"].tolist() == [1, 1]
    assert shown["c"] == 2


def test_numpy_edge__fetches_together_from_an_accelerator_only() -> None:
    pytest.importorskip("jax")
    assert make_numpy_adapter("jax", Device("cuda", 0)).to_user is fetch_together
    assert make_numpy_adapter("jax", Device("cpu", 0)).to_user is jax_to_numpy
