"""Three joints with dry friction and limits on MJX: small, and its solver needs some iterations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mujoco
from brax import envs as brax_envs
from mujoco import mjx

_CHAIN = """
<mujoco>
  <option timestep="0.02" iterations="{iterations}" ls_iterations="8" cone="{cone}">
    <flag contact="disable"/>
  </option>
  <default>
    <joint axis="0 1 0" {constraints}/>
    <geom type="capsule" size="0.03" fromto="0 0 0 0 0 -0.3" mass="1"/>
  </default>
  <worldbody>
    <body><joint name="a"/><geom/>
      <body pos="0 0 -0.3"><joint name="b"/><geom/>
        <body pos="0 0 -0.3"><joint name="c"/><geom/></body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="a" gear="4"/><motor joint="b" gear="2"/><motor joint="c"/></actuator>
</mujoco>
"""
_CONSTRAINTS = 'frictionloss="0.4" limited="true" range="-40 40"'


def make_model(iterations: int, *, cone: str = "pyramidal", is_free: bool = False) -> Any:
    """Return a model of MJX; a free one has no constraints."""
    constraints = "" if is_free else _CONSTRAINTS
    xml = _CHAIN.format(iterations=iterations, cone=cone, constraints=constraints)
    return mjx.put_model(mujoco.MjModel.from_xml_string(xml))


class Chain(brax_envs.Env):
    """A chain that hangs from a fixed point; its observation has angles and speeds, (6,).

    Args:
        iterations: Most iterations of the solver.
        **options: See `make_model`.
    """

    backend = "mjx"
    observation_size, action_size = 6, 3

    def __init__(self, iterations: int, **options: Any) -> None:
        self.sys: Any = make_model(iterations, **options)

    def reset(self, rng: jax.Array) -> Any:
        angles, speeds = jax.random.uniform(rng, (2, 3), minval=-0.7, maxval=0.7)
        data = mjx.make_data(self.sys).replace(qpos=angles, qvel=3 * speeds)
        zero = jnp.zeros(())
        return brax_envs.State(data, self._observe(data), zero, zero, {}, {})

    def step(self, state: Any, action: jax.Array) -> Any:
        data = self.move(state.pipeline_state, action)
        obs = self._observe(data)
        return state.replace(pipeline_state=data, obs=obs, reward=-(obs**2).sum())

    def move(self, data: Any, action: jax.Array) -> Any:
        """Return the physics one step later."""
        return mjx.step(self.sys, data.replace(ctrl=action))

    def _observe(self, data: Any) -> jax.Array:
        return jnp.concatenate([data.qpos, data.qvel])
