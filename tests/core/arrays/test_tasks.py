"""Real tasks of every kind show the same in every kind of arrays."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from tests.support.batches import leaves
from tests.support.player import play

TASKS = {
    "EnvPool/CheetahRun-v1": "a dict of float64 observations",
    "EnvPool/MiniGrid-Empty-5x5-v0": "a dict with images",
}
"""Those whose observations are single arrays are compared in tests/conformance/test_results.py."""


def run(env_id: str, arrays: str) -> tuple[Any, list[Any]]:
    """Return the batch and copies in numpy of what a run with fixed actions returns."""
    envs: Any = gym.make_vec(
        env_id, num_envs=3, autoreset_mode="SameStep", max_episode_steps=5, arrays=arrays
    )
    envs.action_space.seed(0)
    return envs, play(envs, 12, seed=0, act=lambda _: envs.action_space.sample())


def assert_close(found: Any, wanted: Any, space: Any) -> None:
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key in wanted:
            assert_close(found[key], wanted[key], space[key])
        return
    assert found.dtype == space.dtype
    if found.dtype == wanted.dtype:
        np.testing.assert_array_equal(found, wanted)
    else:  # jax without x64 has 32 bits; actions drawn in 32 bits differ by rounding, too
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("env_id", TASKS)
def test_task__shows_what_numpy_shows(env_id: str, arrays: str) -> None:
    pytest.importorskip("envpool")
    _, wanted = run(env_id, "numpy")
    envs, found = run(env_id, arrays)
    assert_close(found[0][0], wanted[0][0], envs.single_observation_space)
    for shown, like in zip(found[1:], wanted[1:], strict=True):
        assert_close(shown[0], like[0], envs.single_observation_space)
        np.testing.assert_allclose(shown[1], like[1], rtol=1e-3, atol=1e-3)
        np.testing.assert_array_equal(shown[2:4], like[2:4])
        final, over = shown[4]["final_obs"], shown[2] | shown[3]
        for leaf, obs in zip(leaves(final), leaves(shown[0]), strict=True):
            np.testing.assert_array_equal(leaf[~over], obs[~over])
