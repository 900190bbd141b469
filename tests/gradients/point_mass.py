"""A smooth Brax environment without physics that compiles in a moment, and its batches."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from brax import envs as brax_envs

from gymbridge import BraxVectorEnv

__all__ = ["Motion", "PointMass", "first_states", "make_batch", "shared_batch"]

SIZE = 2


class Motion(NamedTuple):
    """What the simulator checks for divergence."""

    q: jax.Array
    qd: jax.Array


class PointMass(brax_envs.Env):
    """A point pushed in a plane; its episode ends beyond 2, and it diverges beyond 30.

    The observation is a dict if `is_dict`, with an integer leaf that has no gradient.
    """

    action_size = SIZE
    observation_size = 2 * SIZE
    backend = "point"

    def __init__(self, *, is_dict: bool = False) -> None:
        self.is_dict = is_dict

    def reset(self, rng: jax.Array) -> brax_envs.State:
        motion = Motion(jax.random.uniform(rng, (SIZE,), minval=-0.5), jnp.zeros(SIZE))
        zero, info = jnp.zeros(()), {"count": jnp.zeros((), jnp.int32), "rng": rng}
        return brax_envs.State(motion, self._obs(motion), zero, zero, {"speed": zero}, info)

    def step(self, state: brax_envs.State, action: jax.Array) -> brax_envs.State:
        motion: Any = state.pipeline_state
        speed = motion.qd + 0.3 * jnp.tanh(motion.q * action) + 0.2 * action
        place = motion.q + 0.5 * jnp.sin(speed)
        # The square root has an infinite slope at 0 and no value below: a NaN with a NaN gradient.
        burst = jnp.sqrt(30.0 - jnp.abs(action).sum())
        after = Motion(place + 0 * burst, speed)
        reward = -(place**2).sum() - 0.1 * (action**2).sum()
        done = jnp.where(jnp.abs(after.q).max() > 2, 1.0, 0.0)
        metrics = {"speed": (after.qd**2).sum()}
        info = {**state.info, "count": state.info["count"] + 1}
        return state.replace(
            pipeline_state=after,
            obs=self._obs(after),
            reward=reward,
            done=done,
            metrics=metrics,
            info=info,
        )

    def _obs(self, motion: Motion) -> Any:
        flat = jnp.concatenate([jnp.cos(motion.q), motion.qd])
        return {"flat": flat, "near": motion.q > 0} if self.is_dict else flat


def make_batch(num_envs: int = 4, *, is_dict: bool = False, **options: Any) -> BraxVectorEnv:
    """Return a new batch with gradients."""
    options = {"arrays": "torch", "differentiable": True, **options}
    return BraxVectorEnv(PointMass(is_dict=is_dict), num_envs, **options)


shared_batch = cache(make_batch)
"""The same, one per combination of arguments, since each compiles: seed it first."""


def first_states(seeds: Any, episode: int = 0) -> brax_envs.State:
    """Return the states in which the episodes of these seeds begin."""
    keys = [jax.random.fold_in(jax.random.PRNGKey(seed), episode) for seed in seeds]
    return jax.vmap(PointMass().reset)(jnp.stack(keys))
