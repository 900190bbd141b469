"""Batches and runs for the tests of snapshots, also in other processes."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from batches import play, to_numpy
from brax_samples import SampleEnv

from gymbridge import BraxVectorEnv
from gymbridge.wrappers import RecordEpisodeStatistics

__all__ = ["another", "make_recorded", "run", "run_recorded"]


def _draw(sys: Any, key: jax.Array) -> dict[str, jax.Array]:
    return {"dof.damping": sys.dof.damping + jax.random.uniform(key, sys.dof.damping.shape)}


def make_recorded() -> RecordEpisodeStatistics:
    """Return pendulums with drawn physics, whose episodes take 5 steps, with statistics."""
    options = {"max_episode_steps": 5, "arrays": "jax", "randomization_fn": _draw}
    envs = BraxVectorEnv("inverted_pendulum", 3, **options)
    return RecordEpisodeStatistics(envs)


def run_recorded(envs: Any, num_steps: int) -> list[Any]:
    """Return what some steps return, in numpy."""
    actions = np.linspace(-1, 1, num_steps * 3, dtype=np.float32).reshape(num_steps, 3, 1)
    return [to_numpy(envs.step(action)) for action in actions]


def another(**options: Any) -> Any:
    """Return a batch that differs in one thing."""
    settings = {"num_envs": 4, "max_episode_steps": 3} | options
    return BraxVectorEnv(SampleEnv(), **settings)


def run(envs: Any, num_steps: int) -> list[Any]:
    """Return what some steps return; with autoreset disabled, ended environments are reset."""
    return play(envs, num_steps, seed=None)
