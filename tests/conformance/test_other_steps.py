"""Steps that Gymnasium does not have: of some environments, and without its layout of infos.

That `step_some` steps and holds what its mask says is compared with the oracle and with a twin, as
is that a bad call changes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import VectorWrapper

from gymbridge.core.infos import make_final_infos, make_infos
from gymbridge.errors import ArgumentError, EpisodeEndedError, ResetNeededError
from gymbridge.testing import scripted_vector_env
from tests.support.batches import shared_batch
from tests.support.player import play
from tests.support.trees import assert_same


class LaidOut(VectorWrapper):
    """A batch whose steps are those of `step_time_steps`, in Gymnasium's layout."""

    def step(self, actions: Any) -> Any:
        (*values, info), over, final = self.unwrapped.step_time_steps(actions)
        assert_same(over, values[2] | values[3])
        infos = make_infos(info, np.ones_like(over))
        infos |= {} if final is None else make_final_infos(final, over)
        return *values, infos


def test_step_time_steps__are_those_of_step(scripted: str, mode: str) -> None:
    envs = shared_batch(scripted, mode)
    log = play(envs, 12)
    assert_same(play(LaidOut(envs), 12), log)
    assert any("final_obs" in returned[-1] for returned in log) == (mode == "SameStep")


def test_step_time_steps__raise_what_step_raises() -> None:
    envs = scripted_vector_env([1, 1], autoreset_mode="Disabled")
    with pytest.raises(ResetNeededError):
        envs.step_time_steps([0, 0])
    envs.reset(seed=0)
    assert envs.step_time_steps([0, 0])[1].all()
    with pytest.raises(EpisodeEndedError):
        envs.step_time_steps([0, 0])


@pytest.mark.parametrize("arrays", ["torch", "jax"])
def test_step_time_steps__need_numpy_arrays_and_change_nothing_without(arrays: str) -> None:
    library = pytest.importorskip("torch" if arrays == "torch" else "jax.numpy")
    envs = scripted_vector_env([3, 3], arrays=arrays)
    envs.reset(seed=0)
    actions = library.asarray([0, 0])
    with pytest.raises(ArgumentError, match=f"needs numpy arrays, not {arrays}; use `step`"):
        envs.step_time_steps(actions)
    assert np.asarray(envs.step(actions)[0]).tolist() == [1, 1]
