"""`step_time_steps` is `step` without Gymnasium's layout of infos."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gymbridge.core.infos import make_final_infos, make_infos
from gymbridge.errors import ArgumentError, EpisodeEndedError, ResetNeededError
from gymbridge.testing import scripted_vector_env
from tests.support.batches import shared_batch
from tests.support.trees import assert_same


def test_step_time_steps__are_those_of_step(scripted: str, mode: str) -> None:
    envs = shared_batch(scripted, mode)
    runs: list[list[Any]] = []
    for is_laid_out in (True, False):
        envs.reset(seed=5)
        log, all_rows = [], np.ones(4, np.bool_)
        for step in range(12):
            actions = np.full(4, step % 2)
            if is_laid_out:
                log.append(envs.step(actions))
                over = log[-1][2] | log[-1][3]
            else:
                (obs, rewards, terminated, truncated, info), over, final = envs.step_time_steps(
                    actions
                )
                assert_same(over, terminated | truncated)
                assert (final is not None) == (mode == "SameStep" and bool(over.any()))
                infos = make_infos(info, all_rows)
                infos |= {} if final is None else make_final_infos(final, over)
                log.append((obs, rewards, terminated, truncated, infos))
            if mode == "Disabled" and over.any():
                log.append(envs.reset(options={"reset_mask": over}))
        runs.append(log)
    assert_same(runs[1], runs[0])
    assert any("final_obs" in returned[-1] for returned in runs[0]) == (mode == "SameStep")


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
