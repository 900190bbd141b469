"""Playground's `reward.tolerance`, whose gradient in reverse mode is NaN in infinite bounds."""

from __future__ import annotations

from dataclasses import replace
from inspect import unwrap
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco_playground")

import jax
import jax.numpy as jnp
from mujoco_playground import State
from mujoco_playground._src import reward

from gymbridge import PlaygroundVectorEnv
from gymbridge.private.playground import smooth_tolerance
from tests.support.playground_samples import SampleMjxEnv

SIGMOIDS = ("gaussian", "linear", "hyperbolic", "long_tail", "cosine", "quadratic")
INF = float("inf")
BOUNDS = [((1.2, INF), 0.6), ((-INF, 0.5), 2.0), ((0.0, 0.1), 0.2), ((-INF, INF), 1.0)]


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


@pytest.mark.parametrize(("bounds", "margin"), BOUNDS)
@pytest.mark.parametrize("sigmoid", SIGMOIDS)
def test_tolerance__keeps_its_values_and_has_finite_derivatives(
    sigmoid: str, bounds: tuple[float, float], margin: float
) -> None:
    def tolerance(x: jax.Array) -> jax.Array:
        return reward.tolerance(x, bounds, margin, sigmoid)

    def run(function: Any) -> np.ndarray:
        """Return its values; a function of its own, since JAX keeps traces."""
        return np.asarray(jax.jit(jax.vmap(lambda x: function(x)))(values))

    draws = np.random.default_rng(0).normal(0.5, 2, 5_000)
    values = jnp.asarray([-INF, INF, jnp.nan, *draws], jnp.float32)
    smooth_tolerance()
    slope_of = jax.grad(tolerance)
    found, slope, curvature = map(run, (tolerance, slope_of, jax.grad(slope_of)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reward, "_sigmoids", unwrap(reward._sigmoids))
        np.testing.assert_array_equal(found, run(tolerance))
        own = run(slope_of)
    inside = np.isfinite(values) & (found == 1)
    assert np.isfinite(slope[inside]).all()
    assert np.isfinite(curvature[inside]).all()
    known = np.isfinite(own)
    np.testing.assert_allclose(slope[known], own[known], rtol=1e-5, atol=1e-6)
