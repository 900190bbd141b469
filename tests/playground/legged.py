"""A robot with four legs of three joints, for functions that index the bodies of Go1."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mujoco
from ml_collections import config_dict
from mujoco import mjx
from mujoco_playground import MjxEnv, State
from mujoco_playground._src import mjx_env

__all__ = ["Legged"]

_LEG = """
  <body pos="{x} {y} 0">
    <joint axis="1 0 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0 {y} 0"/>
    <body pos="0 {y} 0">
      <joint axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.2"/>
      <body pos="0 0 -0.2">
        <joint axis="0 1 0"/><geom type="capsule" size="0.015" fromto="0 0 0 0 0 -0.18"/>
        <geom type="sphere" size="0.02" pos="0 0 -0.2" contype="0" conaffinity="1"/>
      </body>
    </body>
  </body>"""

_MJCF = """
<mujoco>
  <option timestep="0.004" iterations="1" ls_iterations="4"/>
  <default>
    <joint range="-2 2" damping="0.5" armature="0.01" frictionloss="0.2"/>
    <geom contype="0" conaffinity="0"/>
  </default>
  <worldbody>
    <geom type="plane" size="5 5 1" contype="1"/>
    <body pos="0 0 0.42">
      <freejoint/><geom type="box" size="0.2 0.05 0.05" mass="5"/>{legs}
    </body>
  </worldbody>
  <actuator>{motors}</actuator>
</mujoco>"""


def _write_mjcf() -> str:
    legs = "".join(_LEG.format(x=x, y=y) for x in (0.2, -0.2) for y in (0.05, -0.05))
    for joint in range(12):
        legs = legs.replace("<joint axis", f'<joint name="j{joint}"  axis', 1)
    motors = "".join(f'<position joint="j{joint}" kp="20"/>' for joint in range(12))
    return _MJCF.format(legs=legs, motors=motors)


class Legged(MjxEnv):
    """It holds its joints where the action says; the floor is geom 0, and the torso body 1."""

    def __init__(self) -> None:
        super().__init__(config_dict.create(ctrl_dt=0.004, sim_dt=0.004, episode_length=10))
        self._mj_model = mujoco.MjModel.from_xml_string(_write_mjcf())
        self._mjx_model = mjx.put_model(self._mj_model, impl="jax")

    def reset(self, rng: jax.Array) -> State:
        model = self._mjx_model
        data = mjx_env.make_data(
            self._mj_model, qpos=model.qpos0, qvel=jnp.zeros(model.nv), impl="jax"
        )
        data = mjx.forward(model, data)
        return State(data, self._observe(data), jnp.zeros(()), jnp.zeros(()), {}, {"rng": rng})

    def step(self, state: State, action: jax.Array) -> State:
        data = mjx_env.step(self._mjx_model, state.data, 0.3 * action, self.n_substeps)
        return state.replace(data=data, obs=self._observe(data), reward=data.qvel[0])

    def _observe(self, data: Any) -> jax.Array:
        return jnp.concatenate([data.qpos[7:], data.qvel])

    @property
    def action_size(self) -> int:
        return 12

    @property
    def xml_path(self) -> str:
        raise NotImplementedError

    @property
    def mj_model(self) -> mujoco.MjModel:
        return self._mj_model

    @property
    def mjx_model(self) -> mjx.Model:
        return self._mjx_model
