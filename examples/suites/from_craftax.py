"""Craftax's environments, from `make_craftax_env_from_name(…, auto_reset=False)`, as a `JaxEnv`."""

from gymnasium.spaces import Box, Discrete

from gymbridge import JaxEnv


class FromCraftax(JaxEnv):
    """An environment without autoreset; its time limit is that of the batch, a truncation."""

    def __init__(self, env, params=None):
        params = env.default_params if params is None else params
        self.max_episode_steps = int(params.max_timesteps)
        self.env, self.params = env, params.replace(max_timesteps=2**31 - 1)
        self.name, seen = env.name, env.observation_space(params)
        self.observation_space = Box(0, 1, seen.shape)
        self.action_space = Discrete(env.num_actions)

    def reset(self, key):
        observation, state = self.env.reset_env(key, self.params)
        return state, observation, {"achievements": state.achievements}

    def step(self, key, state, action):
        observation, after, reward, is_dead, _ = self.env.step_env(key, state, action, self.params)
        infos = {"achievements": after.achievements}
        return after, observation, reward, is_dead, False, infos
