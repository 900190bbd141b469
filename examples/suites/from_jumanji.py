"""jumanji's environments, such as `jumanji.make("Snake-v1")`, as a `JaxEnv`."""

from jumanji.specs import jumanji_specs_to_gym_spaces

from gymbridge import JaxEnv


class FromJumanji(JaxEnv):
    """A jumanji environment without its own wrappers; action masks are in the observations.

    Discount 0 is a termination. Many tasks have a `time_limit` of their own that ends an episode
    with discount 0: build them with a large one, and give the batch `max_episode_steps`.
    """

    def __init__(self, env):
        self.env, self.name = env, type(env.unwrapped).__name__
        self.observation_space = jumanji_specs_to_gym_spaces(env.observation_spec)
        self.action_space = jumanji_specs_to_gym_spaces(env.action_spec)

    def reset(self, key):
        state, first = self.env.reset(key)
        return state, first.observation, first.extras

    def step(self, key, state, action):
        after, now = self.env.step(state, action)
        terminated = now.last() & (now.discount == 0)
        truncated = now.last() & ~terminated
        return after, now.observation, now.reward, terminated, truncated, now.extras
