"""Episodes that begin at chosen positions and velocities."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brax import envs as brax_envs

from gymbridge import BraxVectorEnv
from gymbridge.errors import ArgumentError
from tests.support.point_mass import Motion, Started
from tests.support.trees import assert_same

Q = np.array([[0.1, 0.2], [0.4, -0.3], [0, 0.02]], np.float32)
QD = np.array([[0.5, -0.5]] * 3, np.float32)


class ByKeyword(Started):
    def begin(self, q: Any, qd: Any) -> Motion:
        return self.pipeline_init(q=q, qd=qd)


class Compiled(Started):
    """JAX keeps the trace of its `reset`, in which there is nothing to put in."""

    def __init__(self) -> None:
        super().__init__()
        self.reset = jax.jit(super().reset)


@cache
def begun() -> BraxVectorEnv:
    return BraxVectorEnv(Started(), 3, autoreset_mode="SameStep")


def test_episode__begins_there() -> None:
    env, envs, actions = Started(), begun(), np.full((3, 2), 0.3, np.float32)
    envs.reset(seed=0)
    obs = envs.reset(options={"q": Q, "qd": QD})[0]
    np.testing.assert_allclose(obs, np.c_[np.cos(Q), QD], atol=1e-6)
    state = jax.vmap(env.reset)(jnp.zeros((3, 2), jnp.uint32))
    after = jax.vmap(env.step)(state.replace(pipeline_state=Motion(Q, QD)), actions)
    obs, rewards = envs.step(actions)[:2]
    np.testing.assert_allclose(obs, after.obs, atol=1e-6)
    np.testing.assert_allclose(rewards, after.reward, atol=1e-6)


@pytest.mark.slow
def test_episode__begins_there_as_in_plain_brax() -> None:
    q = np.array([[0.1, 0.2, 0.05, 0.06], [0.4, -0.3, 0.1, -0.1], [0, 0, 0.02, 0.03]], np.float32)
    qd = np.array([[0.5, -0.5, 0, 0]] * 3, np.float32)
    env: Any = brax_envs.get_environment("reacher", backend="spring")
    envs = BraxVectorEnv("reacher", 3, backend="spring")
    envs.reset(seed=0)
    obs = envs.reset(options={"q": q, "qd": qd})[0]
    begun = [env.pipeline_init(*map(jnp.asarray, row)) for row in zip(q, qd, strict=True)]
    np.testing.assert_allclose(obs, [env._get_obs(state) for state in begun], atol=1e-6)
    state = jax.jit(env.reset)(jax.random.PRNGKey(0)).replace(pipeline_state=begun[0])
    after = jax.jit(env.step)(state, jnp.full(2, 0.3))
    obs, rewards = envs.step(np.full((3, 2), 0.3, np.float32))[:2]
    np.testing.assert_allclose(obs[0], after.obs, atol=1e-5)
    np.testing.assert_allclose(rewards[0], after.reward, atol=1e-5)


def test_other_rows_and_later_episodes__begin_by_themselves() -> None:
    envs = begun()
    first = envs.reset(seed=[1, 2, 3])[0]
    mask = np.array([True, False, True])
    obs = envs.reset(options={"q": Q, "reset_mask": mask})[0]
    assert_same(obs[1], first[1])
    np.testing.assert_allclose(obs[0, :2], np.cos(Q[0]), atol=1e-6)
    envs.reset(seed=[1, 2, 3])
    own = envs.reset()[0]
    envs.reset(seed=[1, 2, 3], options={"q": Q})
    assert_same(envs.reset()[0], own)


def test_velocities_alone__leave_the_positions_to_the_environment() -> None:
    first = begun().reset(seed=0)[0]
    obs = begun().reset(seed=0, options={"qd": QD})[0]
    assert_same(obs, np.c_[first[:, :2], QD])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"q": Q[:, :1]}, r"`options\['q'\]` must have shape \(3, 2\), got \(3, 1\)"),
        ({"q": Q * np.nan}, r"`options\['q'\]` must be finite"),
        ({"qpos": Q}, r"unknown key 'qpos'; known: 'q', 'qd', 'reset_mask'"),
    ],
)
def test_wrong_start__is_refused_before_anything_changes(
    options: dict[str, Any], message: str
) -> None:
    envs = begun()
    envs.reset(seed=0)
    state = envs.get_state()
    with pytest.raises(ArgumentError, match=message):
        envs.reset(options=options)
    for name, leaf in envs.get_state().leaves.items():
        np.testing.assert_array_equal(leaf, state.leaves[name])


@pytest.mark.parametrize("env", ["fast", ByKeyword(), Compiled()])
def test_environment_whose_begin_is_not_seen__has_no_such_option(env: Any) -> None:
    envs = BraxVectorEnv(env, 3)
    with pytest.raises(ArgumentError, match="unknown key 'q'"):
        envs.reset(options={"q": Q})
    assert np.isfinite(envs.reset(seed=0)[0]).all()


@pytest.mark.parametrize("has_own", [True, False])
def test_environment__is_left_as_it_was(has_own: bool) -> None:
    env: Any = Started()
    if has_own:
        env.pipeline_init = env.pipeline_init
    before = dict(vars(env))
    obs = BraxVectorEnv(env, 3).reset(seed=0, options={"q": Q})[0]
    assert vars(env) == before
    np.testing.assert_allclose(obs[:, :2], np.cos(Q), atol=1e-6)
