"""A smooth Brax environment without physics that compiles in a moment, and its batches."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from brax import envs as brax_envs

from gymbridge import BraxVectorEnv

NUM_ENVS = 4
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


class Started(PointMass):
    """A point mass that begins its simulation as Brax's environments do."""

    def pipeline_init(self, q: Any, qd: Any) -> Motion:
        return Motion(q, qd)

    def reset(self, rng: Any) -> brax_envs.State:
        state = super().reset(rng)
        motion: Any = self.begin(*state.pipeline_state)
        return state.replace(pipeline_state=motion, obs=self._obs(motion))

    def begin(self, q: Any, qd: Any) -> Motion:
        return self.pipeline_init(q, qd)


def make_batch(
    env: brax_envs.Env | None = None,
    num_envs: int = NUM_ENVS,
    *,
    is_dict: bool = False,
    **options: Any,
) -> BraxVectorEnv:
    """Return a new batch with gradients, of point masses by default."""
    options = {"arrays": "torch", "differentiable": True, **options}
    return BraxVectorEnv(env or PointMass(is_dict=is_dict), num_envs, **options)


def shared_batch(**options: Any) -> BraxVectorEnv:
    """Return the same with a limit of 6 steps, one per combination of options: seed it first."""
    defaults = {"autoreset_mode": "NextStep", "max_episode_steps": 6, "residuals": "store"}
    return _keep_batch(tuple(sorted({**defaults, **options}.items())))


@cache
def _keep_batch(options: tuple[tuple[str, Any], ...]) -> BraxVectorEnv:
    return make_batch(**dict(options))
