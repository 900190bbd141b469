"""Every view refuses a batch of torch or jax arrays where it is built."""

from __future__ import annotations

from typing import Any

import pytest

from gymbridge.errors import ArgumentError
from gymbridge.testing import scripted_vector_env
from gymbridge.trainers.cleanrl import CleanRLVectorEnv


def cleanrl_view(envs: Any) -> Any:
    return CleanRLVectorEnv(envs)


def sb3_view(envs: Any) -> Any:
    pytest.importorskip("stable_baselines3")
    from gymbridge.trainers.sb3 import Sb3VecEnv

    return Sb3VecEnv(envs)


@pytest.mark.parametrize("view", [cleanrl_view, sb3_view])
@pytest.mark.parametrize("arrays", ["torch", "jax"])
def test_view__needs_numpy_arrays(view: Any, arrays: str) -> None:
    pytest.importorskip(arrays)
    envs = scripted_vector_env([2, 3], autoreset_mode="SameStep", arrays=arrays)
    with pytest.raises(ArgumentError, match=f"`arrays='{arrays}'`; build it with"):
        view(envs)
    assert view(scripted_vector_env([2, 3], autoreset_mode="SameStep")).num_envs == 2
