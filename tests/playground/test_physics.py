"""Playground's physics in a batch: against a plain loop, its gradients, the DM control suite."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco_playground")

import jax
from brax_samples import episode_key
from gymnasium.vector import VectorEnv
from mujoco_playground import dm_control_suite, registry
from oracle import Oracle, Row
from playground_samples import OwnPlayground

from gymbridge import PlaygroundVectorEnv
from gymbridge.errors import EnvContractError
from gymbridge.playground.tasks import PLAYGROUND_LIMITS

pytestmark = pytest.mark.slow

SEEDS = [3, 2**32 - 1]


def _actions(envs: VectorEnv, num_steps: int) -> np.ndarray:
    rng = np.random.default_rng(4)
    return rng.uniform(-1, 1, (num_steps, *envs.action_space.shape)).astype(np.float32)


def _load(name: str) -> Any:
    return registry.load(name, config_overrides={"impl": "jax"})


def test_physics__is_that_of_a_plain_loop_over_several_episodes() -> None:
    env = _load("CartpoleBalance")
    envs = PlaygroundVectorEnv("CartpoleBalance", 2, max_episode_steps=6, autoreset_mode="SameStep")
    rows = [Row(OwnPlayground(env, seed, ("time_out",)), 6) for seed in SEEDS]
    oracle = Oracle(envs, rows, rtol=1e-4, atol=1e-5)
    actions = _actions(envs, 40)
    oracle.play(40, actions.__getitem__, seed=SEEDS, rng=np.random.default_rng(0))
    assert oracle.ends["truncated"] > 3


@pytest.mark.parametrize("name", dm_control_suite.ALL_ENVS)
def test_dm_control_suite__runs_and_stays_finite(name: str) -> None:
    envs = PlaygroundVectorEnv(name, 2, autoreset_mode="Disabled")
    assert envs.max_episode_steps == PLAYGROUND_LIMITS[name]
    first, infos = envs.reset(seed=0)
    assert first in envs.observation_space
    assert not infos["nonfinite"].any()
    obs, rewards, terminations, truncations, infos = envs.step(_actions(envs, 1)[0])
    assert obs in envs.observation_space
    assert not (terminations | truncations | infos["nonfinite"]).any()
    for values in (first, obs, rewards):
        assert np.isfinite(values).all()
    assert (obs != first).any(axis=1).all()


def test_gradient__of_one_solver_iteration_is_that_of_jax() -> None:
    torch = pytest.importorskip("torch")
    env = _load("CartpoleBalance")
    assert env.mjx_model.opt.iterations == 1
    envs = PlaygroundVectorEnv(
        "CartpoleBalance", 2, arrays="torch", differentiable=True, autoreset_mode="Disabled"
    )
    envs.reset(seed=SEEDS)
    actions = torch.from_numpy(_actions(envs, 1)[0]).requires_grad_()
    obs, rewards, *_ = envs.step(actions)
    (obs.sum() + rewards.sum()).backward()

    def earn(action: jax.Array, state: Any) -> jax.Array:
        stepped = env.step(state, action)
        return stepped.obs.sum() + stepped.reward

    gradient = jax.jit(jax.grad(earn))
    wanted = [
        gradient(action, env.reset(episode_key(seed, 0)))
        for action, seed in zip(actions.detach().numpy(), SEEDS, strict=True)
    ]
    assert np.abs(wanted).min() > 1e-4
    np.testing.assert_allclose(actions.grad, wanted, rtol=1e-4, atol=1e-6)


def test_gradients__of_more_solver_iterations_go_with_the_code_of_the_error() -> None:
    pytest.importorskip("torch")
    env = _load("CheetahRun")
    with pytest.raises(EnvContractError, match=r"opt\.iterations") as caught:
        PlaygroundVectorEnv(env, 2, arrays="torch", differentiable=True)
    (code,) = re.findall(r"`(env\._mjx_model = .*?)`", str(caught.value))
    exec(code, {"env": env})
    assert env.mjx_model.opt.iterations == 1
    envs = PlaygroundVectorEnv(env, 2, arrays="torch", differentiable=True)
    assert envs.num_envs == 2
