"""A custom Brax environment, registered for Gymnasium and for the trainers.

    python examples/ppo.py --env-id custom_brax_env:Docking-v0 --total-steps 200000

Needs: pip install '.[brax,examples]'.

A spacecraft in a plane has to reach a dock and stop there. `Docking` has no `sys` and no physics
pipeline, its observation is a dict, and it terminates episodes itself: `BraxVectorEnv` needs no
more than a `brax.envs.Env`. The part of the id before the colon is the module that registers it.
"""

from typing import Any, ClassVar

import gymnasium as gym
import jax
import jax.numpy as jnp
from brax.envs import Env, State

from gymbridge import BraxVectorEnv


class Docking(Env):
    """A craft with two thrusters; it terminates where it docks and where it leaves the plane."""

    dt = 0.1
    observation_size: ClassVar = {"craft": 4, "dock": 2}
    action_size = 2  # thrusters; each takes a value in [-1, 1], the default range of actions
    backend = ""  # no physics of Brax

    def reset(self, rng: jax.Array) -> State:
        """Return a state at rest, with craft and dock at random places in [-1, 1]."""
        place, dock = jax.random.uniform(rng, (2, 2), minval=-1.0, maxval=1.0)
        obs = {"craft": jnp.concatenate([place, jnp.zeros(2)]), "dock": dock}
        zero = jnp.zeros(())
        return State(None, obs, reward=zero, done=zero, metrics={"distance": _distance(obs)})

    def step(self, state: State, action: jax.Array) -> State:
        """Return the state after `dt` seconds of thrust, (2,) in [-1, 1]."""
        place, velocity = jnp.split(state.obs["craft"], 2)
        velocity = velocity + self.dt * action
        place = place + self.dt * velocity
        obs = {"craft": jnp.concatenate([place, velocity]), "dock": state.obs["dock"]}
        distance = _distance(obs)
        is_docked = (distance < 0.1) & (jnp.linalg.norm(velocity) < 0.3)
        is_lost = jnp.abs(place).max() > 2.0
        reward = 10.0 * is_docked - 10.0 * is_lost - self.dt * distance
        done = (is_docked | is_lost).astype(jnp.float32)
        return state.replace(obs=obs, reward=reward, done=done, metrics={"distance": distance})


def _distance(obs: dict[str, jax.Array]) -> jax.Array:
    return jnp.linalg.norm(obs["craft"][:2] - obs["dock"])


def make_docking(**kwargs: Any) -> BraxVectorEnv:
    return BraxVectorEnv(Docking(), max_episode_steps=100, **kwargs)


gym.register("Docking-v0", vector_entry_point=make_docking)
