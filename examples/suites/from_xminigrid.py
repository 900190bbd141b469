"""XLand-MiniGrid's environments, such as `xminigrid.make("MiniGrid-Empty-5x5")`, as a `JaxEnv`."""

import numpy as np
from gymnasium.spaces import Box, Discrete

from gymbridge import JaxEnv


class FromXMiniGrid(JaxEnv):
    """An environment and its parameters without `GymAutoResetWrapper`; its limit is `max_steps`.

    XLand-MiniGrid keeps the state inside its time step, so the time step is the state here.
    """

    def __init__(self, env, params):
        self.env, self.params, self.name = env, params, type(env).__name__
        self.observation_space = Box(0, 255, env.observation_shape(params), np.uint8)
        self.action_space = Discrete(env.num_actions(params))

    def reset(self, key):
        first = self.env.reset(self.params, key)
        return first, first.observation, {}

    def step(self, key, state, action):
        now = self.env.step(self.params, state, action)
        terminated = now.last() & (now.discount == 0)
        return now, now.observation, now.reward, terminated, now.last() & ~terminated, {}

    def render(self, state):
        return self.env.render(self.params, state)
