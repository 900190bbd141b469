"""A small model on Brax's own pipelines, with a contact whose friction acts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from brax import envs as brax_envs
from brax.envs.base import PipelineEnv
from brax.io import mjcf

PUCK = """<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <geom type="plane" size="5 5 1" friction="0.5 0.005 0.0001"/>
    <body pos="0 0 0.1">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="z" type="slide" axis="0 0 1"/>
      <geom type="sphere" size="0.1" mass="2" friction="0.3 0.005 0.0001"/>
    </body>
  </worldbody>
  <actuator><motor joint="x" gear="10" ctrllimited="true" ctrlrange="-1 1"/></actuator>
</mujoco>"""


class Puck(PipelineEnv):
    """A ball that cannot roll, and slides on a floor."""

    def __init__(self, backend: str) -> None:
        super().__init__(mjcf.loads(PUCK), backend=backend, n_frames=1)

    def reset(self, rng: jax.Array) -> brax_envs.State:
        speed = jax.random.uniform(rng, minval=1.0, maxval=2.0)
        motion = self.pipeline_init(jnp.array([0, -0.002]), jnp.stack([speed, 0 * speed]))
        zero = jnp.zeros(())
        return brax_envs.State(motion, jnp.concatenate([motion.q, motion.qd]), zero, zero)

    def step(self, state: brax_envs.State, action: jax.Array) -> brax_envs.State:
        motion: Any = self.pipeline_step(state.pipeline_state, action)
        obs = jnp.concatenate([motion.q, motion.qd])
        return state.replace(pipeline_state=motion, obs=obs, reward=-motion.q[0])
