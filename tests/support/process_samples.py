"""What worker processes run: importable there by name, as tests are not."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym

from gymbridge.errors import SimulationError
from tests.support.player import play

NUM_STEPS = 4


def build_and_play(env_id: str, kwargs: dict[str, Any]) -> Any:
    return play(gym.make_vec(f"gymbridge:{env_id}", **kwargs), NUM_STEPS)


def unpickle_and_play(data: bytes) -> Any:
    return play(pickle.loads(data), NUM_STEPS)


def report(*uses: Any) -> None:
    """Print for each of these functions that it runs in a child process, or its error."""
    for use in uses:
        try:
            use()
            print("child runs", flush=True)
        except SimulationError as error:
            print("child", error, flush=True)
