"""Every view refuses a batch of torch or jax arrays where it is built."""

from __future__ import annotations

from typing import Any

import pytest

from gymbridge.errors import ArgumentError
from gymbridge.testing import scripted_vector_env
from gymbridge.trainers.cleanrl import CleanRLVectorEnv
from gymbridge.trainers.cleanrl_envpool import OldGymVectorEnv


def cleanrl_view(envs: Any) -> Any:
    return CleanRLVectorEnv(envs)


def old_gym_view(envs: Any) -> Any:
    return OldGymVectorEnv(envs)


def sb3_view(envs: Any) -> Any:
    pytest.importorskip("stable_baselines3")
    from gymbridge.trainers.sb3 import Sb3VecEnv

    return Sb3VecEnv(envs)


@pytest.mark.parametrize("view", [cleanrl_view, old_gym_view, sb3_view])
@pytest.mark.parametrize("arrays", ["torch", "jax"])
def test_view__needs_numpy_arrays(view: Any, arrays: str) -> None:
    pytest.importorskip(arrays)
    mode = "NextStep" if view is old_gym_view else "SameStep"
    envs = scripted_vector_env([2, 3], autoreset_mode=mode, arrays=arrays)
    with pytest.raises(ArgumentError, match=f"`arrays='{arrays}'`; build it with"):
        view(envs)
    assert view(scripted_vector_env([2, 3], autoreset_mode=mode)).num_envs == 2
