"""jumanji's Snake as an id for every script that takes ids, with the grid alone as observation.

PYTHONPATH=examples/suites python examples/ppo.py --env-id snake:Snake-v0 --arrays torch
"""

import gymnasium as gym
import jumanji
from from_jumanji import FromJumanji


class Snake(FromJumanji):
    """Its own observations also count steps, which `ppo.py` would take as 4,000 inputs."""

    def __init__(self):
        super().__init__(jumanji.make("Snake-v1"))
        self.observation_space = self.observation_space["grid"]

    def reset(self, key):
        state, obs, info = super().reset(key)
        return state, obs.grid, info

    def step(self, key, state, action):
        after, obs, *others = super().step(key, state, action)
        return after, obs.grid, *others


gym.register(
    "Snake-v0",
    vector_entry_point="gymbridge:JaxVectorEnv",
    max_episode_steps=1000,  # below jumanji's own limit, which it reports as a termination
    kwargs={"env": Snake()},
)
