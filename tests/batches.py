"""Scripted batches to run a test on, through a host simulator or through Brax, and runs of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge import BridgeVectorEnv
from gymbridge.testing import scripted_vector_env

__all__ = ["KIND_LENGTHS", "KIND_TRUNCATES", "SIMULATORS", "make_batch", "play", "shared_batch"]

SIMULATORS = ("host", "brax")

_LENGTHS = [[2, 3], [3, 1], [1, 4], [5, 2], [3, 3], [4, 1], [2, 2], [6, 1], [1, 1], [3, 5]]
_TRUNCATES = [[False, True], [False, False], [True, False], [False, False], [True, True]] * 2

KIND_LENGTHS = (1, 2, 3, 3, 5, 2)
"""Episode lengths of the Brax script; the draw of an episode picks one."""

KIND_TRUNCATES = (False, True, False, True, False, False)


def make_batch(
    simulator: str, num_envs: int = 4, mode: str = "NextStep", limit: int | None = None
) -> BridgeVectorEnv:
    """Return a new batch of the scripted task; skip the test where Brax is not installed."""
    options: dict[str, Any] = {"max_episode_steps": limit, "autoreset_mode": mode}
    if simulator == "host":
        return scripted_vector_env(_LENGTHS[:num_envs], _TRUNCATES[:num_envs], **options)
    pytest.importorskip("brax")
    from gymbridge import BraxVectorEnv
    from gymbridge.testing.scripted_brax import ScriptedBraxEnv

    env = ScriptedBraxEnv(KIND_LENGTHS, KIND_TRUNCATES)
    return BraxVectorEnv(env, num_envs=num_envs, **options)


shared_batch = cache(make_batch)
"""The same, one per combination of arguments, since each batch on Brax compiles: seed it first."""


def play(
    envs: VectorEnv,
    num_steps: int,
    *,
    seed: int = 3,
    touch: Callable[[Any], None] = lambda shown: None,
) -> list[Any]:
    """Return copies of all that a run with fixed actions shows.

    With autoreset disabled, ended environments are reset at once.

    Args:
        envs: The batch, reset here with one seed per environment.
        num_steps: Steps to take.
        seed: Of environment 0; environment i gets ``seed + i``.
        touch: Called after each call with what it took and what it returned.
    """
    rng = np.random.default_rng(seed)
    seeds = [seed + index for index in range(envs.num_envs)]
    shown: Any = envs.reset(seed=seeds)
    log = [copy.deepcopy(shown)]
    touch((shown, seeds))
    for _ in range(num_steps):
        actions = rng.integers(0, 3, envs.num_envs)
        shown = envs.step(actions)
        log.append(copy.deepcopy(shown))
        over = shown[2] | shown[3]
        touch((shown, actions))
        if over.any() and envs.metadata["autoreset_mode"] == AutoresetMode.DISABLED:
            options = {"reset_mask": over}
            shown = envs.reset(options=options)
            log.append(copy.deepcopy(shown))
            touch((shown, options))
    return log
