"""A small Brax environment, its keys and its resets, that tests of JAX engines share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from brax import envs as brax_envs


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
