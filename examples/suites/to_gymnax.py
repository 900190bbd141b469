"""A batch in JAX as an environment with gymnax's calls, for rejax, PureJaxRL and the like."""

import jax
import jax.numpy as jnp
from gymnasium.spaces import Discrete
from gymnax.environments import spaces
from gymnax.environments.environment import EnvParams


class ToGymnax:
    """`envs` has one environment, ``arrays="jax"`` and SameStep; the trainer maps it by `vmap`."""

    def __init__(self, envs):
        found = envs.num_envs, envs.autoreset_mode.value
        if found != (1, "SameStep"):
            raise ValueError(f"`envs` must have one environment, in SameStep, got {found}.")
        envs.reset(seed=0)
        self._carry, self._reset, self._step = envs.functional()
        self._seen, self._acted = envs.single_observation_space, envs.single_action_space
        self.default_params = EnvParams(max_steps_in_episode=envs.max_episode_steps or 1000)

    def reset(self, key, params=None):
        seeds = jax.random.bits(key, (1,))
        carry, (observations, _) = self._reset(self._carry, jnp.ones(1, bool), seeds)
        return observations[0], carry

    def step(self, key, carry, action, params=None):
        actions = action.reshape(1, *self._acted.shape) + getattr(self._acted, "start", 0)
        carry, (observations, rewards, terminations, truncations, _) = self._step(carry, actions)
        return observations[0], carry, rewards[0], (terminations | truncations)[0], {}

    def observation_space(self, params):
        return _to_gymnax_space(self._seen)

    def action_space(self, params):
        return _to_gymnax_space(self._acted)


def _to_gymnax_space(space):
    if isinstance(space, Discrete):
        return spaces.Discrete(int(space.n))
    return spaces.Box(space.low, space.high, space.shape, space.dtype)
