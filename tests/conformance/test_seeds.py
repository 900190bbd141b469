"""Seeds: one for each environment, of any size, kept and drawn on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.batches import shared_batch
from tests.support.trees import assert_same


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
