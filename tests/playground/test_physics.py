"""Playground's physics in a batch, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco_playground")

import jax
import jax.numpy as jnp
from brax.envs.wrappers import training as brax_training
from mujoco import mjx
from mujoco_playground import registry, wrapper
from mujoco_playground._src import mjx_env

from gymbridge import PlaygroundVectorEnv
from tests.support.oracle import Oracle, Row, check_run
from tests.support.playground_samples import OwnPlayground

pytestmark = pytest.mark.slow

SEEDS = [3, 2**32 - 1]


def test_physics__is_that_of_a_plain_loop_over_several_episodes() -> None:
    env = registry.load("CartpoleBalance", config_overrides={"impl": "jax"})
    envs = PlaygroundVectorEnv("CartpoleBalance", 2, max_episode_steps=6, autoreset_mode="SameStep")
    rows = [Row(OwnPlayground(env, seed, ("time_out",)), 6) for seed in SEEDS]
    oracle = Oracle(envs, rows, rtol=1e-4, atol=1e-5)
    check_run(oracle, 40, seed=SEEDS)
    assert oracle.ends["truncated"] > 3


def test_episode__begins_at_chosen_positions_as_in_plain_playground() -> None:
    env = registry.load("CartpoleBalance", config_overrides={"impl": "jax"})
    envs = PlaygroundVectorEnv("CartpoleBalance", 2)
    envs.reset(seed=0)
    given = {"qpos": np.array([[0.3, 0.1], [0, -0.2]]), "qvel": np.array([[0.0, 1.0], [0.5, 0]])}
    obs = envs.reset(options=given)[0]
    plain = mjx_env.make_data(
        env.mj_model, qpos=given["qpos"][0], qvel=given["qvel"][0], impl="jax"
    )
    data = mjx.forward(env.mjx_model, plain)
    np.testing.assert_allclose(obs[0], env._get_obs(data, {}), atol=1e-6)


def test_preserved_info__is_that_of_playground_s_own_wrapper() -> None:
    """Over 100 restarts."""
    key = "AutoResetWrapper_preserve_info"

    class Curriculum(type(registry.load("CartpoleBalance", config_overrides={"impl": "jax"}))):
        def reset(self, rng: Any) -> Any:
            state = super().reset(rng)
            state.info[key] = {"level": jnp.ones(()), "ends": jnp.zeros((), jnp.int32)}
            state.info["age"] = jnp.zeros(())
            return state

        def step(self, state: Any, action: Any) -> Any:
            age = state.info["age"] + 1
            done = age >= 1 + state.info[key]["ends"] % 3
            kept = {
                "level": state.info[key]["level"] + done * (1 + action[0]),
                "ends": state.info[key]["ends"] + done,
            }
            state = super().step(state, action)
            state.info[key], state.info["age"] = kept, age
            return state.replace(done=done.astype(jnp.float32))

    env = Curriculum(swing_up=False, sparse=False, config_overrides={"impl": "jax"})
    envs = PlaygroundVectorEnv(env, 2, autoreset_mode="SameStep")
    own = wrapper.BraxAutoResetWrapper(brax_training.VmapWrapper(env), full_reset=True)
    state = jax.jit(own.reset)(jax.random.split(jax.random.PRNGKey(0), 2))
    envs.reset(seed=0)
    step, rng = jax.jit(own.step), np.random.default_rng(0)
    for _ in range(200):
        actions = rng.uniform(-1, 1, (2, 1)).astype(np.float32)
        state, infos = step(state, actions), envs.step(actions)[4]
        for name, values in state.info[key].items():
            np.testing.assert_allclose(infos[key][name], values, rtol=1e-6)
    assert infos[key]["ends"].min() >= 100
    given = {key: {"level": np.array([7.0, 8]), "ends": np.array([1, 2])}}
    assert envs.reset(options=given)[1][key]["level"].tolist() == [7, 8]
