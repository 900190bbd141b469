"""What a step hands over lies in a few buffers; each array is still the user's own."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gymbridge import JaxEnv, JaxVectorEnv
from gymbridge.core.arrays.packing import pack
from tests.support.batches import Cell, cells, leaves, make_batch, to_kind, to_numpy
from tests.support.trees import assert_same

DTYPES = st.sampled_from(["bool", "uint8", "int32", "float32", "float64"])
SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)


def join(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([array.ravel() for array in arrays])


@given(st.lists(DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, SHAPES)), max_size=9))
def test_packed_arrays__are_those_that_were_packed(arrays: list[np.ndarray]) -> None:
    for always in (False, True):
        packed = pack(arrays, join, "structure", always=always)
        assert packed.structure == "structure"
        assert_same(packed.take_apart(packed.buffers), arrays)


@given(st.lists(hnp.arrays("int16", hnp.array_shapes(min_dims=1, max_dims=2)), min_size=1))
def test_packed_arrays__may_be_stacked_by_devices_and_steps(arrays: list[np.ndarray]) -> None:
    """Three steps of two devices, each with its own rows."""
    parts = [
        [pack([x + 10 * t + d for x in arrays], join, always=True) for d in range(2)]
        for t in range(3)
    ]
    buffer = np.stack([np.concatenate([p.buffers[0] for p in step]) for step in parts])
    wanted = [
        np.stack([np.concatenate([x + 10 * t + d for d in range(2)]) for t in range(3)])
        for x in arrays
    ]
    assert_same(parts[0][0].take_apart([buffer]), wanted)


def test_large_arrays__are_not_copied() -> None:
    large, small = np.zeros(100_000), np.zeros(3)
    packed = pack([small, large, *[small] * 3], join)
    assert packed.take_apart(packed.buffers)[1] is large
    assert len(packed.buffers) == 2
    assert len(pack([small, large, small], join, always=True).buffers) == 1


def test_few_arrays__are_handed_over_as_they_are() -> None:
    arrays = [np.zeros(3), np.ones(3), np.zeros(2, bool)]
    assert all(map(operator.is_, pack(arrays, join).buffers, arrays))


@pytest.mark.parametrize("cell", cells(["host", "brax", "envpool"], kinds=["numpy", "torch"]))
def test_array__is_apart_from_all_others_of_its_step(cell: Cell) -> None:
    envs = cell.batch()
    envs.reset(seed=0)
    actions = to_kind(np.ones(4, np.int64), cell.kind)
    for _ in range(3 if cell.mode != "Disabled" else 1):
        returned = envs.step(actions)
    arrays = [leaf for leaf in leaves(returned) if leaf.dtype != object]
    for array in arrays:
        before = [to_numpy(other).copy() for other in arrays]
        array[...] = ~array if to_numpy(array).dtype == bool else 93
        for other, value in zip(arrays, before, strict=True):
            assert other is array or np.array_equal(to_numpy(other), value, equal_nan=True)


def test_masks_of_many_rows__are_apart_too() -> None:
    pytest.importorskip("torch")
    envs = make_batch("fast", "SameStep", num_envs=70_000, arrays="torch")
    envs.reset(seed=0)
    infos = envs.step(envs.action_space.sample())[4]
    masks = [infos["_final_obs"], infos["_final_info"], infos["final_info"]["_nonfinite"]]
    assert len({mask.data_ptr() for mask in masks}) == 3


def test_infos__have_a_version_counter_each() -> None:
    """Torch refuses a backward pass through what was written; through its neighbours it goes."""
    torch = pytest.importorskip("torch")
    jnp = pytest.importorskip("jax.numpy")

    class Metered(JaxEnv):
        observation_space = action_space = Box(-9, 9, (), "float32")

        def reset(self, key: Any) -> Any:
            return jnp.zeros(()), jnp.zeros(()), {f"m{k}": jnp.zeros(()) for k in range(6)}

        def step(self, key: Any, state: Any, action: Any) -> Any:
            infos = {f"m{k}": action + k for k in range(6)}
            return action, action, action, False, False, infos

    envs = JaxVectorEnv(Metered(), 4, arrays="torch")
    envs.reset(seed=0)
    infos: dict[str, Any] = envs.step(torch.ones(4))[4]
    floats = [leaf for leaf in leaves(infos) if leaf.is_floating_point()]
    assert len({leaf.untyped_storage().data_ptr() // 4096 for leaf in floats}) < len(floats) == 6
    weight = torch.ones(4, requires_grad=True)
    loss = (weight * floats[0].reshape(4, -1)[:, 0]).sum()
    for other in floats[1:]:
        other.fill_(3)
    loss.backward()
    assert weight.grad is not None


@pytest.mark.parametrize("differentiable", [False, True])
def test_large_tensors__are_not_the_simulation_s(differentiable: bool) -> None:
    """They share memory with what the compiled step wrote; writing into them changes no step."""
    torch = pytest.importorskip("torch")
    runs = []
    for writes in (False, True):
        options = {"arrays": "torch", "differentiable": differentiable}
        envs = make_batch("fast", "SameStep", num_envs=140_000, limit=2, **options)
        envs.reset(seed=0)
        actions, log = torch.ones(140_000, 1), []
        for _ in range(4):
            returned = envs.step(actions)
            log.append([to_numpy(leaf).copy() for leaf in leaves(returned)])
            for leaf in leaves(returned) if writes else ():
                leaf.copy_(~leaf if leaf.dtype == torch.bool else torch.full_like(leaf, 93))
        runs.append(log)
    assert_same(runs[1], runs[0])
