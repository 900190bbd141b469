"""Real tasks of every kind show the same in every kind of arrays."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from tests.support.batches import leaves, to_kind, to_numpy

TASKS = {
    "EnvPool/CheetahRun-v1": "a dict of float64 observations",
    "EnvPool/MiniGrid-Empty-5x5-v0": "a dict with images",
}
"""Those whose observations are single arrays are compared in tests/conformance/test_results.py."""


def play(env_id: str, arrays: str) -> tuple[Any, list[Any]]:
    """Return the batch and copies in numpy of what a run with fixed actions shows."""
    envs: Any = gym.make_vec(
        env_id, num_envs=3, autoreset_mode="SameStep", max_episode_steps=5, arrays=arrays
    )
    log = [to_numpy(envs.reset(seed=0)[0])]
    envs.action_space.seed(0)
    for _ in range(12):
        shown = envs.step(to_kind(envs.action_space.sample(), arrays))
        log.append(to_numpy(shown[:4]))
        if arrays != "numpy":
            over = log[-1][2] | log[-1][3]
            log[-1] += (to_numpy(shown[4]["final_obs"]), over)
    return envs, log


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
    _, wanted = play(env_id, "numpy")
    envs, found = play(env_id, arrays)
    assert_close(found[0], wanted[0], envs.single_observation_space)
    for shown, like in zip(found[1:], wanted[1:], strict=True):
        assert_close(shown[0], like[0], envs.single_observation_space)
        np.testing.assert_allclose(shown[1], like[1], rtol=1e-3, atol=1e-3)
        np.testing.assert_array_equal(shown[2:4], like[2:4])
        final, over = shown[4:]
        for leaf, obs in zip(leaves(final), leaves(shown[0]), strict=True):
            np.testing.assert_array_equal(leaf[~over], obs[~over])
