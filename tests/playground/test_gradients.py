"""Gradients through Playground's physics, in a file of their own, since they compile for long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco_playground")

import jax

from gymbridge import PlaygroundVectorEnv
from gymbridge.playground.building import build_env
from tests.support.brax_samples import episode_key
from tests.support.playground_samples import draw_actions

pytestmark = pytest.mark.slow

SEEDS = [3, 2**32 - 1]


def test_gradient__of_one_solver_iteration_is_that_of_jax() -> None:
    torch = pytest.importorskip("torch")
    env = build_env("CartpoleBalance", None, None, "jax", 1)
    assert env.mjx_model.opt.iterations == 1
    envs = PlaygroundVectorEnv(
        "CartpoleBalance", 2, arrays="torch", differentiable=True, autoreset_mode="Disabled"
    )
    envs.reset(seed=SEEDS)
    actions = torch.from_numpy(draw_actions(envs, 1)[0]).requires_grad_()
    obs, rewards, *_ = envs.step(actions)
    (obs.sum() + rewards.sum()).backward()

    def earn(action: jax.Array, state: Any) -> jax.Array:
        stepped = env.step(state, action)
        return stepped.obs.sum() + stepped.reward

    reset, gradient = jax.jit(env.reset), jax.jit(jax.grad(earn))
    wanted = [
        gradient(action, reset(episode_key(seed, 0)))
        for action, seed in zip(actions.detach().numpy(), SEEDS, strict=True)
    ]
    assert np.abs(wanted).min() > 1e-4
    np.testing.assert_allclose(actions.grad, wanted, rtol=1e-4, atol=1e-6)
