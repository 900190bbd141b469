"""Small Brax environments, and ways to play them, that the tests of the Brax engine share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from brax import envs as brax_envs

__all__ = ["SampleEnv", "count_on", "episode_key", "episodes_of", "start", "under"]


class SampleEnv(brax_envs.Env):
    """A `brax.envs.Env` made of two functions, and of whatever attributes a test gives it.

    By itself it counts: the observation is (steps since the episode began, the number it drew), the
    reward is the sum of the action, and an episode never ends.
    """

    def __init__(
        self,
        reset: Callable[[Any], brax_envs.State] | None = None,
        step: Callable[[brax_envs.State, Any], brax_envs.State] | None = None,
        **attributes: Any,
    ) -> None:
        self._reset, self._step = reset or start, step or count_on
        vars(self).update(attributes)

    def reset(self, rng: jax.Array) -> brax_envs.State:
        return self._reset(rng)

    def step(self, state: brax_envs.State, action: jax.Array) -> brax_envs.State:
        return self._step(state, action)

    @property
    def observation_size(self) -> int:
        return 2

    @property
    def action_size(self) -> int:
        return 1

    @property
    def backend(self) -> str:
        return "none"


def start(rng: jax.Array, **parts: Any) -> brax_envs.State:
    """Return the first state of a `SampleEnv`, with other parts where given."""
    zero = jnp.zeros(())
    state = brax_envs.State(None, jnp.stack([zero, jax.random.uniform(rng)]), zero, zero)
    return state.replace(**parts)


def count_on(state: brax_envs.State, action: jax.Array, **parts: Any) -> brax_envs.State:
    """Return the state one step later, with other parts where given."""
    if "obs" not in parts:
        parts["obs"] = state.obs + jnp.array([1.0, 0])
    if "reward" not in parts:
        parts["reward"] = action.sum()
    return state.replace(**parts)


def episode_key(seed: int, episode: int) -> jax.Array:
    """Return the key that the package promises to episode `episode` of an environment's seed."""
    return jax.random.fold_in(jax.random.PRNGKey(np.uint32(seed)), episode)


def under(num_envs: int, *rows: int) -> dict[str, Any]:
    """Return the reset options that name these rows."""
    return {"reset_mask": np.isin(np.arange(num_envs), rows)}


def episodes_of(envs: Any, choose: Callable[[int, int, int], Any], num_steps: int) -> list[Any]:
    """Play a batch in any mode and return each environment's episodes, without the running one.

    Args:
        envs: The batch, after `reset`'s first call by this function with seed 7.
        choose: (env, episode, step in it) -> the action, so that every mode takes the same ones.
        num_steps: Calls of `step`.

    Returns:
        Per environment a list of episodes, each a list of (obs, reward, terminated, truncated),
        the first with the observation alone.
    """
    num_envs, mode = envs.num_envs, envs.autoreset_mode.value
    obs, _ = envs.reset(seed=7)
    episodes: list[Any] = [[[(row.copy(),)]] for row in obs]
    over = np.zeros(num_envs, bool)
    for _ in range(num_steps):
        if mode == "Disabled" and over.any():
            obs, _ = envs.reset(options={"reset_mask": over.copy()})
            for env in np.flatnonzero(over):
                episodes[env].append([(obs[env].copy(),)])
        places = [(env, len(past) - 1, len(past[-1]) - 1) for env, past in enumerate(episodes)]
        actions = [choose(*place) for place in places]
        obs, rewards, terminations, truncations, infos = envs.step(actions)
        for env in range(num_envs):
            if mode == "NextStep" and over[env]:
                assert (rewards[env], terminations[env], truncations[env]) == (0, False, False)
                episodes[env].append([(obs[env].copy(),)])
                continue
            ended = terminations[env] | truncations[env]
            last = infos["final_obs"][env] if ended and mode == "SameStep" else obs[env]
            flags = bool(terminations[env]), bool(truncations[env])
            episodes[env][-1].append((last.copy(), rewards[env], *flags))
            if ended and mode == "SameStep":
                episodes[env].append([(obs[env].copy(),)])
        over = terminations | truncations
    return [past[:-1] for past in episodes]
