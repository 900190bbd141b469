"""Seeds: one for each environment, of any size, kept and drawn on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from batches import make_batch, shared_batch
from trees import assert_same


@pytest.mark.parametrize("seed", [None, [None] * 4, [8, None, None, 9]])
def test_first_reset__reports_seeds_that_reproduce_it(scripted: str, seed: Any) -> None:
    envs = make_batch(scripted)
    first = [envs.reset(seed=seed), envs.step([0] * 4)]
    seeds = envs.np_random_seed
    assert len(set(seeds)) == 4
    assert all(type(number) is int and 0 <= number <= 2**32 - 1 for number in seeds)
    wanted = seed or [None] * 4
    assert all(given in (None, found) for given, found in zip(wanted, seeds, strict=True))
    envs = shared_batch(scripted)
    assert_same([envs.reset(seed=list(seeds)), envs.step([0] * 4)], first)


def test_np_random_seed__before_the_first_reset_is_drawn_and_what_it_uses(scripted: str) -> None:
    envs = make_batch(scripted)
    seeds = envs.np_random_seed
    assert seeds != make_batch(scripted).np_random_seed
    envs.reset()
    assert envs.np_random_seed == seeds


@pytest.mark.parametrize("seed", [2**32 - 2, 2**80, np.uint64(2**63)], ids=repr)
def test_large_seed__is_a_seed_like_any_and_returned_as_given(scripted: str, seed: Any) -> None:
    envs = shared_batch(scripted)
    returned = [envs.reset(seed=seed), envs.step([0] * 4), envs.reset()]
    assert envs.np_random_seed == tuple(int(seed) + row for row in range(4))
    assert all(type(number) is int for number in envs.np_random_seed)
    assert len(np.unique(returned[0][1]["draw"])) == 4
    envs.reset(seed=1)
    again = [envs.reset(seed=[int(seed) + row for row in range(4)]), envs.step([0] * 4)]
    assert_same([*again, envs.reset()], returned)
    assert_same(envs.reset(seed=list(envs.np_random_seed)), returned[0])
