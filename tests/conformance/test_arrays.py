"""torch and jax batches show what numpy batches show, in arrays that belong to the user."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tensors import (
    SIMULATORS,
    draw_actions,
    leaves,
    make_batch,
    play,
    shared_batch,
    to_kind,
    to_numpy,
)

from gymbridge.errors import ResetNeededError

ON_THE_HOST = ("host", "envpool", "frozen_lake", "half_cheetah")


@pytest.fixture(params=SIMULATORS)
def simulator(request: pytest.FixtureRequest) -> str:
    return request.param


def act(envs: Any) -> Any:
    """Return actions of the batch's kind, the same in each call."""
    return to_kind(draw_actions(envs, np.random.default_rng(7)), envs.arrays)


def is_kind(value: Any, arrays: str) -> bool:
    if arrays == "torch":
        import torch

        return type(value) is torch.Tensor
    import jax

    return isinstance(value, jax.Array)


def assert_like_numpy(shown: Any, wanted: Any) -> None:
    """Raise unless a dense result says what `SyncVectorEnv`'s layout says, value by value."""
    *values, infos = shown
    *wanted_values, wanted_infos = wanted
    for value, like in zip(values, wanted_values, strict=True):
        assert_same_values(value, like)
    over = wanted_values[2] | wanted_values[3] if len(wanted_values) > 1 else None
    for key, value in wanted_infos.items():
        if key == "final_obs":
            for row, like in enumerate(value):
                if like is not None:
                    assert_same_values(take(infos[key], row), like)
        elif key == "final_info":
            compare_infos(infos[key], value, over)
        else:
            compare_infos({key: infos[key]}, {key: value}, None)
    assert infos.keys() - wanted_infos.keys() <= {
        "final_obs",
        "_final_obs",
        "final_info",
        "_final_info",
    }
    for key in infos.keys() - wanted_infos.keys():
        if key.startswith("_"):
            assert not infos[key].any(), "there is none, since no episode ended"


def take(tree: Any, row: int) -> Any:
    if isinstance(tree, dict):
        return {key: take(value, row) for key, value in tree.items()}
    return tree[row]


def compare_infos(infos: Any, wanted: Any, rows: Any) -> None:
    assert infos.keys() == wanted.keys()
    for key, value in wanted.items():
        if isinstance(value, dict):
            compare_infos(infos[key], value, rows)
        elif rows is None:
            assert_same_values(infos[key], value)
        else:
            assert_same_values(infos[key][rows], value[rows])


def assert_same_values(value: Any, like: Any) -> None:
    if isinstance(like, dict):
        assert value.keys() == like.keys()
        for key in like:
            assert_same_values(value[key], like[key])
        return
    narrow = {np.dtype(np.int64): np.dtype(np.int32), np.dtype(np.float64): np.dtype(np.float32)}
    like = np.asarray(like)
    assert value.dtype in (like.dtype, narrow.get(like.dtype))
    # Physics is equal to rounding where it is compiled with other outputs.
    np.testing.assert_allclose(value, like.astype(value.dtype), rtol=1e-5, atol=1e-6)


def test_run__shows_what_numpy_shows(simulator: str, arrays: str, mode: str) -> None:
    numpy_envs = shared_batch(simulator, "numpy", mode, max_episode_steps=4)
    envs = shared_batch(simulator, arrays, mode, max_episode_steps=4)
    wanted = play_numpy(numpy_envs)
    shown = play(envs, 24)
    assert len(shown) == len(wanted)
    assert any((step[2] | step[3]).any() for step in shown if len(step) == 5)
    for left, right in zip(shown, wanted, strict=True):
        assert_like_numpy(left, right)


def play_numpy(envs: Any) -> list[Any]:
    """Return the same run of a numpy batch, with its object arrays as they are."""
    import copy

    log: list[Any] = []
    play(envs, 24, touch=lambda call: log.append(copy.deepcopy(call[0])))
    return log


def test_arrays__are_of_that_kind_and_of_the_dtype_of_their_space(
    simulator: str, arrays: str, mode: str
) -> None:
    envs = shared_batch(simulator, arrays, mode)
    obs, infos = envs.reset(seed=0)
    step = envs.step(act(envs))
    for tree in (obs, infos, *step):
        assert all(is_kind(leaf, arrays) for leaf in leaves(tree))
    for array in (obs, step[0]):
        assert to_numpy(array).dtype == envs.single_observation_space.dtype
        assert to_numpy(array) in envs.observation_space
    assert to_numpy(step[2]).dtype == to_numpy(step[3]).dtype == np.bool_


def test_keys__never_depend_on_values(simulator: str, arrays: str, mode: str) -> None:
    envs = shared_batch(simulator, arrays, mode, max_episode_steps=4)
    shown: list[Any] = []
    play(envs, 12, touch=lambda call: shown.append(call[0]))
    steps = [names(call[4]) for call in shown if len(call) == 5]
    resets = [names(call[1]) for call in shown if len(call) == 2]
    assert all(found == steps[0] for found in steps)
    assert all(found == resets[0] for found in resets)
    final = {"final_obs", "_final_obs", "final_info", "_final_info"}
    assert {path for path in steps[0] if path.split(".")[0] not in final} == resets[0]
    assert ("final_obs" in steps[0]) == (mode == "SameStep")


def names(tree: Any, path: str = "") -> set[str]:
    if not isinstance(tree, dict):
        return {path}
    return {path} | {
        name for key, value in tree.items() for name in names(value, f"{path}.{key}".lstrip("."))
    } - {""}


def test_final_obs__is_the_true_next_observation_of_every_row(simulator: str, arrays: str) -> None:
    same = shared_batch(simulator, arrays, "SameStep", max_episode_steps=4)
    shown = [step for step in play(same, 12) if len(step) == 5]
    for obs, _, terminations, truncations, infos in shown:
        over = terminations | truncations
        np.testing.assert_array_equal(infos["_final_obs"], over)
        np.testing.assert_array_equal(infos["final_obs"][~over], obs[~over])
        if over.any():
            assert (infos["final_obs"][over] != obs[over]).any()


def test_results__of_one_call_share_no_memory(simulator: str, arrays: str, mode: str) -> None:
    envs = shared_batch(simulator, arrays, mode, max_episode_steps=4)
    calls: list[Any] = []
    play(envs, 6, touch=lambda call: calls.append(call[0]))
    if arrays == "jax":  # nobody can write into them, so masks may be one array
        calls = [list(unique(call)) for call in calls]
    pointers = [pointer(leaf) for call in calls for leaf in leaves(call)]
    assert len(set(pointers)) == len(pointers)


def unique(tree: Any) -> Any:
    """Return the different arrays of a tree."""
    return {id(leaf): leaf for leaf in leaves(tree)}.values()


def masks(infos: Any) -> Any:
    """Yield (mask, whether it is of the final ones) of infos."""
    for key, value in infos.items():
        if isinstance(value, dict):
            for mask, is_final in masks(value):
                yield mask, is_final or key == "final_info"
        elif key.startswith("_"):
            yield value, key.startswith("_final_")


def test_masks_of_jax__are_one_array_for_each_value(simulator: str, mode: str) -> None:
    pytest.importorskip("jax")
    envs = shared_batch(simulator, "jax", mode, max_episode_steps=4)
    _, infos = envs.reset(seed=0)
    step = envs.step(act(envs))[4]
    assert len({id(mask) for mask, _ in masks(infos)}) <= 1
    for wanted in (False, True):
        assert len({id(mask) for mask, is_final in masks(step) if is_final == wanted}) <= 1


def test_masks_of_torch__hear_nothing_of_one_another(simulator: str, mode: str) -> None:
    torch = pytest.importorskip("torch")
    envs = shared_batch(simulator, "torch", mode, max_episode_steps=4)
    envs.reset(seed=0)
    _, _, terminations, truncations, infos = envs.step(act(envs))
    over = terminations | truncations
    for written, _ in masks(infos):
        written.logical_not_()
        for mask, is_final in masks(infos):
            wanted = over if is_final else torch.ones(4, dtype=torch.bool)
            assert torch.equal(mask, ~wanted if mask is written else wanted)
        assert torch.equal(over, terminations | truncations)
        written.logical_not_()


def pointer(array: Any) -> int:
    return array.data_ptr() if hasattr(array, "data_ptr") else array.unsafe_buffer_pointer()


def test_torch_run__is_the_same_if_its_user_writes_everywhere(simulator: str, mode: str) -> None:
    torch = pytest.importorskip("torch")
    envs = shared_batch(simulator, "torch", mode, max_episode_steps=4)

    def scribble(call: Any) -> None:
        for leaf in leaves(call):
            leaf.copy_(~leaf if leaf.dtype == torch.bool else torch.full_like(leaf, 93))

    untouched = play(envs, 20)
    for left, right in zip(play(envs, 20, touch=scribble), untouched, strict=True):
        assert_equal(left, right)
    for mask in ([True, False, True, False], [False, True, False, True]):
        runs = []
        for touch in (lambda call: None, scribble):
            play(envs, 3, touch=touch)
            shown = envs.reset(options={"reset_mask": torch.tensor(mask)})
            runs.append([to_numpy(shown)])
            touch((shown,))
            runs[-1].append(to_numpy(envs.step(act(envs))))
        assert_equal(runs[0], runs[1])


def assert_equal(left: Any, right: Any) -> None:
    if isinstance(right, dict):
        assert left.keys() == right.keys()
        for key in right:
            assert_equal(left[key], right[key])
    elif isinstance(right, list | tuple):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_equal(one, other)
    else:
        np.testing.assert_array_equal(left, right)


def test_jax_run__is_the_same_if_its_user_donates_everything(simulator: str, mode: str) -> None:
    jax = pytest.importorskip("jax")
    envs = shared_batch(simulator, "jax", mode, max_episode_steps=4)
    spoil = jax.jit(lambda leaf: ~leaf if leaf.dtype == bool else leaf * 3 + 1, donate_argnums=0)
    deleted: list[bool] = []

    def donate(call: Any) -> None:
        for leaf in unique(call):
            jax.block_until_ready(spoil(leaf))
            deleted.append(leaf.is_deleted())

    untouched = play(envs, 12)
    for left, right in zip(play(envs, 12, touch=donate), untouched, strict=True):
        assert_equal(left, right)
    assert sum(deleted) > len(deleted) / 2


def test_results__are_never_overwritten_by_a_later_call(
    simulator: str, arrays: str, mode: str
) -> None:
    envs = shared_batch(simulator, arrays, mode, max_episode_steps=4)
    shown: list[Any] = []
    copies = play(envs, 12, touch=lambda call: shown.append(call[0]))
    for left, right in zip(shown, copies, strict=True):
        assert_equal(to_numpy(left), right)


def test_ended_rows__are_held_on_a_device_and_refused_on_the_host(
    simulator: str, arrays: str
) -> None:
    envs = make_batch(simulator, arrays, "Disabled", max_episode_steps=1)
    envs.reset(seed=3)
    actions = act(envs)
    before = to_numpy(envs.step(actions)[:4])
    if simulator in ON_THE_HOST:
        with pytest.raises(ResetNeededError):
            envs.step(actions)
        return
    assert (before[2] | before[3]).all()
    after = to_numpy(envs.step(actions)[:4])
    np.testing.assert_array_equal(after[0], before[0])
    assert (after[1] == 0).all()
    np.testing.assert_array_equal(after[2:], before[2:])


def test_memory__is_shared_between_jax_and_torch() -> None:
    """The tensors that the user gets are the buffers that the compiled step wrote."""
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    from gymbridge.core.arrays.torch import jax_to_torch

    time_step = {"obs": jax.numpy.ones((4, 2)), "flags": jax.numpy.zeros(4, bool)}
    shown = jax_to_torch(time_step)
    assert shown["flags"].dtype == torch.bool
    for name, leaf in time_step.items():
        assert shown[name].data_ptr() == leaf.unsafe_buffer_pointer()
