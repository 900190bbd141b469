"""gymnax's environments, from `gymnax.make(name)`, as a `JaxEnv`. It needs gymnasium<1.4."""

from gymnax.environments.spaces import gymnax_space_to_gym_space

from gymbridge import JaxEnv


class FromGymnax(JaxEnv):
    """An environment without gymnax's own autoreset; its limit is `max_steps_in_episode`.

    For gradients, give `env.with_transition_gradients()`.
    """

    def __init__(self, env, params=None):
        self.env, self.params = env, env.default_params if params is None else params
        self.name = env.name
        self.observation_space = gymnax_space_to_gym_space(env.observation_space(self.params))
        self.action_space = gymnax_space_to_gym_space(env.action_space(self.params))

    def reset(self, key):
        observation, state = self.env.reset_env(key, self.params)
        return state, observation, {}

    def step(self, key, state, action):
        step_env, params = self.env.step_env, self.params
        observation, after, reward, terminated, _ = step_env(key, state, action, params)
        truncated = self.env.is_truncated(after, params)
        return after, observation, reward, terminated, truncated, {}
