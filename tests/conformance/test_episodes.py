"""Episodes are the same whatever steps them: mode, arrays, batch size, neighbours, earlier runs."""

from __future__ import annotations

import pickle

import pytest

from gymbridge.errors import ResetNeededError
from tests.support.batches import MODES, QUICK, Cell, cells
from tests.support.episode_runs import compare, episodes


@pytest.mark.parametrize("cell", cells(modes=["NextStep"]))
def test_modes__have_the_same_episodes(cell: Cell) -> None:
    runs = [episodes(cell._replace(mode=mode).batch(), 16) for mode in MODES]
    compare(runs[1], runs[0], complete=2)
    compare(runs[2], runs[0], complete=2)


@pytest.mark.parametrize("cell", cells(QUICK))
def test_environment__has_the_same_episodes_in_a_larger_batch(cell: Cell) -> None:
    small, large = (episodes(cell.batch(num_envs=size), 20) for size in (4, 8))
    compare(large[:4], small, complete=3, digits=0)


@pytest.mark.parametrize("cell", cells(QUICK, modes=["NextStep"]))
def test_pickled_batch__has_the_same_episodes(cell: Cell) -> None:
    envs = cell.batch()
    twin = pickle.loads(pickle.dumps(envs))
    with pytest.raises(ResetNeededError):
        twin.step(envs.action_space.sample())
    compare(episodes(twin, 16), episodes(envs, 16), complete=2, digits=0)
    twin.close()
    pickle.loads(pickle.dumps(twin)).reset()
