"""What `reset` and `step` return, in every kind of arrays; torch and jax equal numpy in values."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from tests.support.batches import Cell, cells, to_numpy
from tests.support.episode_runs import row_of
from tests.support.player import calls, play
from tests.support.trees import assert_same, walk_infos

FINAL = {"final_obs", "_final_obs", "final_info", "_final_info"}

ON_A_DEVICE = ("torch", "jax")

every_cell = pytest.mark.parametrize("cell", cells())


def is_kind(value: Any, kind: str) -> bool:
    if kind == "numpy":
        return type(value) is np.ndarray
    if kind == "torch":
        import torch

        return type(value) is torch.Tensor
    import jax

    return isinstance(value, jax.Array)


@every_cell
def test_results__have_the_types_of_their_spaces(cell: Cell) -> None:
    envs, ends = cell.batch(), 0
    single = envs.single_observation_space
    for obs, *rest, infos in (call.returned for call in calls(envs, 12)):
        array = to_numpy(obs)
        assert envs.observation_space.contains(array)
        assert array.dtype == single.dtype
        assert all(is_kind(leaf, cell.kind) for leaf in (obs, *rest))
        for key, value, mask in walk_infos(infos):
            assert is_kind(mask, cell.kind), key
            assert is_kind(value, cell.kind) or isinstance(value, dict), key
        if not rest:
            continue
        rewards, terminations, truncations = map(to_numpy, rest)
        assert (rewards.shape, rewards.dtype) == ((4,), np.float32)
        for flags in (terminations, truncations):
            assert (flags.shape, flags.dtype) == ((4,), np.bool_)
        assert not (terminations & truncations).any()
        ends += (terminations | truncations).sum()
        for final in infos.get("final_obs", ()):
            if final is not None:
                final = to_numpy(final)
                assert single.contains(
                    final if final.shape or isinstance(single, spaces.Box) else final[()]
                )
    assert ends > 4


@pytest.mark.parametrize("cell", cells(kinds=ON_A_DEVICE))
def test_run__equals_that_in_numpy(cell: Cell) -> None:
    wanted = play(cell._replace(kind="numpy").batch(), 24)
    found = play(cell.batch(), 24)
    for left, right in zip(found, wanted, strict=True):
        assert_like_numpy(left, right)


@pytest.mark.parametrize("task", ["CheetahRun-v1", "MiniGrid-Empty-5x5-v0"])
def test_run__with_dicts_of_float64_and_of_images_equals_that_in_numpy(
    task: str, arrays: str
) -> None:
    pytest.importorskip("envpool")
    options = {"num_envs": 3, "autoreset_mode": "SameStep", "max_episode_steps": 5}
    batches = [
        gym.make_vec(f"EnvPool/{task}", arrays=kind, **options) for kind in ("numpy", arrays)
    ]
    wanted, found = (play(envs, 12) for envs in batches)
    for left, right in zip(found, wanted, strict=True):
        assert_like_numpy(left, right)
        for key, space in batches[1].single_observation_space.items():
            assert left[0][key].dtype == space.dtype
        if arrays == "torch":  # which keeps 64 bits
            assert_same(left[0], right[0])


def assert_like_numpy(found: Any, wanted: Any) -> None:
    """Raise unless a dense result has what `SyncVectorEnv`'s layout has, value by value."""
    *values, infos = found
    *wanted_values, wanted_infos = wanted
    for value, like in zip(values, wanted_values, strict=True):
        assert_close(value, like)
    plain = {key: value for key, value in infos.items() if key not in FINAL}
    assert_close(plain, {key: value for key, value in wanted_infos.items() if key not in FINAL})
    if "final_obs" in wanted_infos:
        over = wanted_infos["_final_obs"]
        for row in np.flatnonzero(over):
            final = row_of(infos["final_obs"], row)
            assert_close(final, wanted_infos["final_obs"][row])
        assert_close(infos["final_info"], wanted_infos["final_info"], over)
    elif "final_obs" in infos:
        assert not infos["_final_obs"].any()


def assert_close(value: Any, like: Any, rows: Any = ...) -> None:
    if isinstance(like, dict):
        assert value.keys() == like.keys()
        for key in like:
            assert_close(value[key], like[key], rows)
        return
    narrow = {np.dtype(np.int64): np.dtype(np.int32), np.dtype(np.float64): np.dtype(np.float32)}
    assert value.dtype in (like.dtype, narrow.get(like.dtype))
    # Physics is equal to rounding where it is compiled with other outputs, or steps in 32 bits.
    wanted = like.astype(value.dtype)[rows]
    np.testing.assert_allclose(value[rows], wanted, rtol=1e-4, atol=1e-5)
