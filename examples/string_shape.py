r"""An elastic string with 32 actuators, a task where gradients win: SHAC beside PPO.

    for seed in 0 1 2; do
        python examples/shac.py --env-id string_shape:String-v0 --env-kwargs '{}' --seed $seed \
            --num-steps 50 --num-envs 16 --actor-rate 0.005 --total-steps 400000 \
            --max-seconds 60 --out runs/String-v0/shac/$seed
        python examples/ppo.py --env-id string_shape:String-v0 --seed $seed \
            --max-seconds 60 --out runs/String-v0/ppo/$seed
    done
    python examples/compare_curves.py --title String-v0 --bottom -40 --curves \
        SHAC=runs/String-v0/shac PPO=runs/String-v0/ppo

Needs: pip install '.[brax,examples]'.

An actuator pushes each mass of the string, which has to take a given shape. PPO has to find out by
trial which of the 32 pushes were good. SHAC gets the gradient of the reward with respect to all
of them from the simulator. The task is smooth and has many actions, which suits gradients. SHAC's
windows are whole episodes. PPO has the default values of its script.

`BraxVectorEnv` needs no more than a `brax.envs.Env`: this one has no `sys` and no physics pipeline.
The part of the id before the colon is the module that registers it.
"""

from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
from brax.envs import Env, State

from gymbridge import BraxVectorEnv


class String(Env):
    """Masses in a row between two fixed ends, with springs between neighbours."""

    size, stiffness, damping, strength = 32, 16.0, 0.2, 3.0
    dt, substeps = 0.1, 4
    observation_size, action_size = 3 * size, size
    backend = ""  # no physics of Brax

    def reset(self, rng: jax.Array) -> State:
        """Return a straight string at rest, and a shape of three random waves."""
        places = jnp.pi * jnp.arange(1, self.size + 1) / (self.size + 1)
        heights = jax.random.uniform(rng, (3,), minval=-1.0, maxval=1.0)
        shape = sum(heights[wave] * jnp.sin((wave + 1) * places) for wave in range(3))
        obs = jnp.concatenate([jnp.zeros(2 * self.size), shape])
        zero = jnp.zeros(())
        return State(None, obs, zero, zero)

    def step(self, state: State, action: jax.Array) -> State:
        """Return the state after `dt` seconds of pushes, (32,) in [-1, 1]."""
        place, velocity, shape = jnp.split(state.obs, 3)
        for _ in range(self.substeps):
            padded = jnp.pad(place, 1)
            pull = padded[:-2] - 2 * place + padded[2:]
            force = self.stiffness * pull - self.damping * velocity + self.strength * action
            velocity = velocity + self.dt / self.substeps * force
            place = place + self.dt / self.substeps * velocity
        reward = -jnp.square(place - shape).mean()
        return state.replace(obs=jnp.concatenate([place, velocity, shape]), reward=reward)


def make_string(**kwargs: Any) -> BraxVectorEnv:
    return BraxVectorEnv(String(), max_episode_steps=50, **kwargs)


gym.register("String-v0", vector_entry_point=make_string)
