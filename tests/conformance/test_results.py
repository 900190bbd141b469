"""What `reset` and `step` return, in every kind of arrays; torch and jax equal numpy in values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from batches import Cell, cells, draw_actions, play, to_kind, to_numpy
from gymnasium import spaces
from trees import assert_same, walk_infos

from gymbridge.errors import ResetNeededError

ON_THE_HOST = ("host", "envpool", "frozen_lake", "pendulum", "half_cheetah")
FINAL = {"final_obs", "_final_obs", "final_info", "_final_info"}

ON_A_DEVICE = ("torch", "jax")

every_cell = pytest.mark.parametrize("cell", cells())


def calls(envs: Any, num_steps: int = 12) -> list[Any]:
    """Return what the calls of a run returned, arrays as they are."""
    found: list[Any] = []
    play(envs, num_steps, touch=lambda call: found.append(call[0]))
    return found


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
    for obs, *rest, infos in calls(envs):
        array = to_numpy(obs)
        assert envs.observation_space.contains(array)
        assert array.dtype == single.dtype
        assert all(is_kind(leaf, cell.kind) for leaf in (obs, *rest))
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


@every_cell
def test_infos__are_arrays_with_masks(cell: Cell) -> None:
    begun, *later = [infos for *_, infos in calls(cell.batch())]
    names = {key for key, *_ in walk_infos(begun)}
    for infos in (begun, *later):
        for key, value, mask in walk_infos(infos):
            assert is_kind(mask, cell.kind), key
            assert (mask.shape, to_numpy(mask).dtype) == ((4,), np.bool_), key
            if not isinstance(value, dict):
                assert is_kind(value, cell.kind), key
                assert len(value) == 4, key
        plain = {key: value for key, value in infos.items() if key not in FINAL}
        assert {key for key, *_ in walk_infos(plain)} == names


@every_cell
def test_final_keys__come_with_ends_in_numpy_and_always_elsewhere(cell: Cell) -> None:
    ends, is_same_step = 0, cell.mode == "SameStep"
    for _, *rest, infos in calls(cell.batch()):
        over = to_numpy(rest[1] | rest[2]) if rest else np.zeros(4, np.bool_)
        has_finals = is_same_step and bool(rest) and (cell.kind != "numpy" or over.any())
        assert infos.keys() & FINAL == (FINAL if has_finals else set())
        if has_finals:
            ends += over.any()
            np.testing.assert_array_equal(to_numpy(infos["_final_obs"]), over)
            np.testing.assert_array_equal(to_numpy(infos["_final_info"]), over)
            for _, _, mask in walk_infos(infos["final_info"]):
                np.testing.assert_array_equal(to_numpy(mask), over)
    assert ends >= 2 or not is_same_step


@pytest.mark.parametrize("cell", cells(kinds=ON_A_DEVICE))
def test_run__equals_that_in_numpy(cell: Cell) -> None:
    wanted = play(cell._replace(kind="numpy").batch(), 24)
    found = play(cell.batch(), 24)
    for left, right in zip(found, wanted, strict=True):
        assert_like_numpy(left, right)


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
        assert_close(infos["final_obs"][over], np.stack(list(wanted_infos["final_obs"][over])))
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


@pytest.mark.parametrize("cell", cells(kinds=ON_A_DEVICE, modes=["SameStep"]))
def test_final_obs__is_the_true_next_observation_of_every_row(cell: Cell) -> None:
    for obs, _, terminations, truncations, infos in play(cell.batch(), 12)[1:]:
        over = terminations | truncations
        np.testing.assert_array_equal(infos["final_obs"][~over], obs[~over])
        if over.any():
            assert (infos["final_obs"][over] != obs[over]).any()


@pytest.mark.parametrize("cell", cells(kinds=ON_A_DEVICE, modes=["Disabled"]))
def test_ended_rows__are_held_on_a_device_and_refused_on_the_host(cell: Cell) -> None:
    envs = cell.batch()
    envs.reset(seed=3)
    actions = to_kind(draw_actions(envs, np.random.default_rng(7)), cell.kind)
    on_the_host = cell.engine in ON_THE_HOST
    for _ in range(4):
        before = to_numpy(envs.step(actions)[:4])
        if on_the_host and (before[2] | before[3]).any():
            break
    if on_the_host:
        with pytest.raises(ResetNeededError):
            envs.step(actions)
        return
    assert (before[2] | before[3]).all()
    after = to_numpy(envs.step(actions)[:4])
    assert (after[1] == 0).all()
    assert_same([after[0], *after[2:]], [before[0], *before[2:]])
