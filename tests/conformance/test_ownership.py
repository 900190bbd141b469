"""What passes between a batch and its user belongs to the user.

That seeds, masks, options and actions stay as they were is seen by `test_fuzz.py` in each call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.batches import Cell, cells, leaves, make_batch, to_kind, to_numpy
from tests.support.player import play
from tests.support.trees import assert_same, spoil, unique

MASK = np.array([True, False, True, False])


@pytest.mark.parametrize("cell", cells())
def test_results__are_the_user_s_own(cell: Cell) -> None:
    """They share no memory, no later call writes into them, and spoiling them changes no run."""
    envs, kept, runs = cell.batch(), [], []
    for touch in (lambda call: kept.append(call[0]), spoil(cell.kind), lambda call: None):
        run: list[Any] = play(envs, 14, seed=[3, 4, 5, 6], touch=touch)
        mask = to_kind(MASK.copy(), cell.kind)
        returned = envs.reset(options={"reset_mask": mask})
        run.append(to_numpy(returned))
        touch((returned, mask))
        runs.append([*run, to_numpy(envs.reset(options={"reset_mask": ~MASK}))])
    assert_same(runs[1], runs[0])
    assert_same(runs[2], runs[0])
    assert_same([to_numpy(call) for call in kept], runs[0][:-1])
    assert_apart(kept, cell.kind)


def assert_apart(calls: list[Any], kind: str) -> None:
    """Raise if two arrays share memory: of one call in numpy, of all calls elsewhere."""
    if kind == "numpy":
        for call in calls:
            arrays = [*leaves(call)]
            for index, array in enumerate(arrays):
                assert not any(np.shares_memory(array, other) for other in arrays[:index])
        return
    # Nobody can write into masks of jax, so those of one call may be one array.
    trees = map(unique, calls) if kind == "jax" else calls
    pointers = [pointer(leaf) for tree in trees for leaf in leaves(tree)]
    assert len(set(pointers)) == len(pointers)


def pointer(array: Any) -> int:
    if hasattr(array, "data_ptr"):
        return array.data_ptr()
    return array.addressable_data(0).unsafe_buffer_pointer()


def test_set_attr__copies_a_list_of_values(scripted: str) -> None:
    envs, values = make_batch(scripted), [1, 2, 3, 4]
    envs.set_attr("note", values)
    values[:] = [0] * 4
    assert envs.get_attr("note") == (1, 2, 3, 4)
