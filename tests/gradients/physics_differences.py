"""Gradients with respect to drawn physics, beside central differences.

``python physics_differences.py CASES``, where CASES is a JSON list of the arguments of `measure`,
prints JSON: for each case and field the gradient, the difference and a difference of a smaller
step, each (num_envs, size). It needs ``JAX_ENABLE_X64=1``.
"""

from __future__ import annotations

import json
import sys
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from puck import Puck

from gymbridge import BraxVectorEnv

__all__ = ["make_draw", "measure"]

NUM_ENVS = 3
STEPS = 4  # after those of the warm-up
COPIED = {"pipeline_state.mass": "link.inertia.mass"}
EPSILONS = (1e-5, 2.5e-6)  # relative to the value, or to 1 where that is 0


def make_draw(paths: list[str]) -> Any:
    """Return the function that scales each of these leaves by a number around 1."""

    def draw(model: Any, key: jax.Array) -> dict[str, jax.Array]:
        scales = jax.random.uniform(key, (len(paths),), minval=0.8, maxval=1.2)
        pairs = zip(paths, scales, strict=True)
        return {path: jnp.asarray(attrgetter(path)(model)) * scale for path, scale in pairs}

    return draw


def measure(backend: str, warm_up: int, fields: list[str]) -> dict[str, Any]:
    """Return the figures of each field of `physics_state` of a puck."""
    options = {"arrays": "torch", "differentiable": True, "autoreset_mode": "Disabled"}
    # The masses that `reset` copies into the state are drawn as those of the model.
    paths = [COPIED.get(field, field.removeprefix("physics.")) for field in fields]
    envs = BraxVectorEnv(Puck(backend), NUM_ENVS, randomization_fn=make_draw(paths), **options)
    envs.reset(seed=1)
    rng = np.random.default_rng(0)
    shape = (warm_up + STEPS, *envs.action_space.shape)
    actions = torch.from_numpy(rng.uniform(-0.1, 0.1, shape))
    for action in actions[:warm_up]:
        envs.step(action)
    start, begun = envs.get_state(), envs.physics_state.detach()
    assert begun.dtype == torch.float64
    weights = torch.from_numpy(rng.normal(size=envs.single_observation_space.shape))

    def losses(state: torch.Tensor) -> torch.Tensor:
        envs.set_state(start)
        envs.physics_state = state
        parts = [envs.step(action)[:2] for action in actions[warm_up:]]
        return sum(obs @ weights + rewards for obs, rewards in parts)

    leaf = begun.clone().requires_grad_()
    losses(leaf).sum().backward()
    found = {}
    for field in fields:
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
    print(json.dumps([measure(*case) for case in json.loads(sys.argv[1])]))
