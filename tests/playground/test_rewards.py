"""Playground's `reward.tolerance`, whose gradient in reverse mode is NaN in infinite bounds."""

from __future__ import annotations

from dataclasses import replace
from inspect import unwrap

import numpy as np
import pytest

pytest.importorskip("mujoco_playground")

import jax
import jax.numpy as jnp
from mujoco_playground import State
from mujoco_playground._src import reward
from playground_samples import SampleMjxEnv

from gymbridge import PlaygroundVectorEnv
from gymbridge.playground.private import smooth_tolerance

SIGMOIDS = ("gaussian", "linear", "hyperbolic", "long_tail", "cosine", "tanh_squared")
INF = float("inf")
BOUNDS = [(0.5, INF), (-INF, 0.5), (-1.0, 0.5), (-INF, INF)]


class Standing(SampleMjxEnv):
    """Its reward has a part that is 1, since it is inside its bounds."""

    def step(self, state: State, action: jax.Array) -> State:
        stepped = super().step(state, action)
        inside = reward.tolerance(stepped.reward, (-100.0, INF), margin=1.0)
        return replace(stepped, reward=inside + stepped.reward**2)


def test_gradient__is_finite_inside_infinite_bounds() -> None:
    torch = pytest.importorskip("torch")
    envs = PlaygroundVectorEnv(Standing(), 2, arrays="torch", differentiable=True)
    envs.reset(seed=0)
    actions = torch.full((2, 1), 0.5, requires_grad=True)
    rewards = envs.step(actions)[1]
    (gradient,) = torch.autograd.grad(rewards.sum(), actions)
    np.testing.assert_allclose(gradient[:, 0], 2 * (rewards.detach() - 1).sqrt(), rtol=1e-5)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("sigmoid", SIGMOIDS)
def test_tolerance__keeps_its_values(sigmoid: str, bounds: tuple[float, float]) -> None:
    values = jnp.array([-INF, -3, -1, 0, 0.5, 0.7, 9, INF, jnp.nan])

    def evaluate() -> jax.Array:
        return reward.tolerance(values, bounds, margin=2.0, sigmoid=sigmoid)

    smooth_tolerance()
    found = evaluate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reward, "_sigmoids", unwrap(reward._sigmoids))
        np.testing.assert_array_equal(found, evaluate())
