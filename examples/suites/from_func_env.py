"""Gymnasium's `FuncEnv`, such as `CartPoleFunctional`, as a `JaxEnv`."""

from gymnasium.experimental.functional import FuncEnv

from gymbridge import JaxEnv


class FromFuncEnv(JaxEnv):
    """A `FuncEnv`; the limit of Gymnasium's registered tasks is not part of it."""

    def __init__(self, env: FuncEnv) -> None:
        self.env, self.name = env, type(env).__name__
        self.observation_space, self.action_space = env.observation_space, env.action_space

    def reset(self, key):
        state = self.env.initial(key)
        return state, self.env.observation(state, key), self.env.state_info(state)

    def step(self, key, state, action):
        after = self.env.transition(state, action, key)
        observation, info = self.env.observation(after, key), self.env.state_info(after)
        reward = self.env.reward(state, action, after, key)
        return after, observation, reward, self.env.terminal(after, key), False, info

    def positions(self, state):
        return state
