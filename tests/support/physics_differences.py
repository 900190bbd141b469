"""Gradients with respect to drawn physics, beside central differences.

It prints JSON: for each field of a puck's `physics_state` the gradient, the difference and a
difference of a smaller step, each (num_envs, size). It needs ``JAX_ENABLE_X64=1``.
"""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from gymbridge import BraxVectorEnv
from tests.support.puck import Puck

NUM_ENVS = 3
WARM_UP, STEPS = 8, 4
LEAVES = {
    "physics.gravity": "gravity",
    "physics.geom_friction": "geom_friction",
    # On spring `reset` copies the masses of the model into the state, and `step` reads them there.
    "pipeline_state.mass": "link.inertia.mass",
}
"""The leaf of the model that is drawn for each field."""

EPSILONS = (1e-5, 2.5e-6)  # relative to the value, or to 1 where that is 0


def draw(model: Any, key: jax.Array) -> dict[str, jax.Array]:
    """Return each leaf, scaled by a number around 1."""
    scales = jax.random.uniform(key, (len(LEAVES),), minval=0.8, maxval=1.2)
    pairs = zip(LEAVES.values(), scales, strict=True)
    return {path: jnp.asarray(attrgetter(path)(model)) * scale for path, scale in pairs}


def measure() -> dict[str, Any]:
    """Return the figures of each field."""
    options = {"arrays": "torch", "differentiable": True, "autoreset_mode": "Disabled"}
    envs = BraxVectorEnv(Puck("spring"), NUM_ENVS, randomization_fn=draw, **options)
    envs.reset(seed=1)
    rng = np.random.default_rng(0)
    shape = (WARM_UP + STEPS, *envs.action_space.shape)
    actions = torch.from_numpy(rng.uniform(-0.1, 0.1, shape))
    for action in actions[:WARM_UP]:
        envs.step(action)
    start, begun = envs.get_state(), envs.physics_state.detach()
    assert begun.dtype == torch.float64
    weights = torch.from_numpy(rng.normal(size=envs.single_observation_space.shape))

    def losses(state: torch.Tensor) -> torch.Tensor:
        envs.set_state(start)
        envs.physics_state = state
        parts = [envs.step(action)[:2] for action in actions[WARM_UP:]]
        return sum(obs @ weights + rewards for obs, rewards in parts)

    leaf = begun.clone().requires_grad_()
    losses(leaf).sum().backward()
    found = {}
    for field in LEAVES:
        place = envs.physics_state_fields[field]
        columns = range(place.start, place.stop)
        gradient = leaf.grad[:, place]
        both = [
            torch.stack([_difference(losses, begun, column, size) for column in columns], 1)
            for size in EPSILONS
        ]
        found[field] = [values.tolist() for values in (gradient, *both)]
    return found


def _difference(losses: Any, begun: torch.Tensor, column: int, size: float) -> torch.Tensor:
    """Return (num_envs,) central differences by one column."""
    value = begun[:, column].abs()
    steps = torch.zeros_like(begun)
    steps[:, column] = size * torch.where(value > 0, value, 1.0)
    with torch.no_grad():
        up, down = losses(begun + steps), losses(begun - steps)
    return (up - down) / (2 * steps[:, column])


if __name__ == "__main__":
    print(json.dumps(measure()))
