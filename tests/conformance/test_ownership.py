"""What passes between a batch and its user belongs to the user."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from batches import make_batch, play, shared_batch
from trees import assert_same, scribble

GARBAGE = np.array([True, False, True, False])


def test_run__is_the_same_if_its_user_writes_garbage_everywhere(simulator: str, mode: str) -> None:
    envs = shared_batch(simulator, mode=mode, limit=4)
    untouched = play(envs, 20)
    assert_same(play(envs, 20, touch=scribble), untouched)
    assert_same(play(envs, 20), untouched)


def test_partial_reset__takes_copies(simulator: str, mode: str) -> None:
    envs = shared_batch(simulator, mode=mode)
    runs = []
    for touch in (lambda shown: None, scribble):
        run = play(envs, 3)
        mask, seeds = GARBAGE.copy(), [50, 51, 52, 53]
        shown = envs.reset(seed=seeds, options={"reset_mask": mask})
        run.append(tuple(map(copy_of, shown)))
        touch((shown, mask, seeds))
        run.append(envs.np_random_seed)
        run.append(envs.reset(options={"reset_mask": ~GARBAGE}))
        run.append(envs.step(np.zeros(4, np.int64)))
        runs.append(run)
    assert_same(*runs)
    assert runs[0][-3] == (50, 4, 52, 6)


def copy_of(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: copy_of(value) for key, value in tree.items()}
    return tree.copy()


def test_result__is_never_overwritten_by_a_later_call(simulator: str, mode: str) -> None:
    envs = shared_batch(simulator, mode=mode)
    shown: list[Any] = []
    copies = play(envs, 12, touch=lambda call: shown.append(call[0]))
    assert_same(shown, copies)


def test_results_of_one_call__share_no_memory(simulator: str, mode: str) -> None:
    for call in play_uncopied(simulator, mode):
        arrays = list(arrays_of(call))
        for index, array in enumerate(arrays):
            assert not any(np.shares_memory(array, other) for other in arrays[:index])


def play_uncopied(simulator: str, mode: str) -> list[Any]:
    shown: list[Any] = []
    play(shared_batch(simulator, mode=mode), 12, touch=lambda call: shown.append(call[0]))
    return shown


def arrays_of(tree: Any) -> Any:
    if isinstance(tree, dict | tuple):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from arrays_of(value)
    elif isinstance(tree, np.ndarray):
        yield tree
        if tree.dtype == object:
            yield from arrays_of(tuple(tree))


@pytest.mark.parametrize("is_partial", [False, True])
def test_options__are_left_as_they_were(simulator: str, mode: str, is_partial: bool) -> None:
    envs = shared_batch(simulator, mode=mode)
    envs.reset(seed=1)
    mask = GARBAGE.copy()
    options: dict[str, Any] = {"reset_mask": mask} if is_partial else {}
    seeds = [7, None, 9, None]
    envs.reset(seed=seeds, options=options)
    assert seeds == [7, None, 9, None]
    assert options.keys() == ({"reset_mask"} if is_partial else set())
    assert options.get("reset_mask", mask) is mask
    assert_same(mask, GARBAGE)


def test_actions__are_left_as_they_were(simulator: str, mode: str) -> None:
    envs = shared_batch(simulator, mode=mode)
    envs.reset(seed=1)
    actions = np.array([0, 1, 2, 1])
    actions.flags.writeable = False
    envs.step(actions)
    assert actions.tolist() == [0, 1, 2, 1]


def test_set_attr__copies_a_list_of_values(simulator: str) -> None:
    envs, values = make_batch(simulator), [1, 2, 3, 4]
    envs.set_attr("note", values)
    values[:] = [0] * 4
    assert envs.get_attr("note") == (1, 2, 3, 4)
