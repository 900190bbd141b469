"""What worker processes run: importable there by name, as tests are not."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np

from gymbridge.errors import SimulationError

__all__ = ["build_and_play", "play", "report", "unpickle_and_play"]


def play(envs: Any) -> Any:
    """Return the observations of a few steps."""
    shown = [envs.reset(seed=7)[0]]
    envs.action_space.seed(0)
    shown += [envs.step(envs.action_space.sample())[0] for _ in range(4)]
    return np.stack(shown)


def build_and_play(env_id: str, kwargs: dict[str, Any]) -> Any:
    return play(gym.make_vec(f"gymbridge:{env_id}", **kwargs))


def unpickle_and_play(data: bytes) -> Any:
    return play(pickle.loads(data))


def report(*uses: Any) -> None:
    """Print for each of these functions that it runs in a child process, or its error."""
    for use in uses:
        try:
            use()
            print("child runs", flush=True)
        except SimulationError as error:
            print("child", error, flush=True)
