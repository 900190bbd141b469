"""Gradients with respect to the physics that an episode drew."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from tests.support.falling_ball import FallingBall
from tests.support.falling_ball import draw as draw_ball
from tests.support.point_mass import make_batch
from tests.support.puck import Puck
from tests.support.rollouts import play_steps

GRAVITY = "physics.gravity"
LEAVES = {
    GRAVITY: "gravity",
    "physics.geom_friction": "geom_friction",
    # On spring `reset` copies the masses of the model into the state, and `step` reads them there.
    "pipeline_state.mass": "link.inertia.mass",
}
"""The leaf of the model that is drawn for each field."""

BARS = {1e-5: 1e-5, 2.5e-6: 1e-6}
"""The relative error of a gradient by the size of the difference."""


def draw(model: Any, key: jax.Array) -> dict[str, jax.Array]:
    """Return each leaf, scaled by a number around 1."""
    scales = jax.random.uniform(key, (len(LEAVES),), minval=0.8, maxval=1.2)
    pairs = zip(LEAVES.values(), scales, strict=True)
    return {path: jnp.asarray(attrgetter(path)(model)) * scale for path, scale in pairs}


def difference(losses: Any, begun: torch.Tensor, column: int, size: float) -> torch.Tensor:
    """Return (num_envs,) central differences by one column; the size is relative to its value."""
    value = begun[:, column].abs()
    steps = torch.zeros_like(begun)
    steps[:, column] = size * torch.where(value > 0, value, 1.0)
    with torch.no_grad():
        up, down = losses(begun + steps), losses(begun - steps)
    return (up - down) / (2 * steps[:, column])


@pytest.mark.slow
@jax.enable_x64(True)
def test_gradients__are_those_of_central_differences() -> None:
    """The differences of two steps agree, so the loss is smooth there."""
    envs = _ball(Puck("spring"), randomization_fn=draw, autoreset_mode="Disabled")
    rng = np.random.default_rng(0)
    warm_up, actions = torch.from_numpy(rng.uniform(-0.1, 0.1, (3, 4, 3, 1))).split([2, 1])
    for action in warm_up.flatten(0, 1):
        envs.step(action)
    start, begun = envs.get_state(), envs.physics_state.detach()
    assert begun.dtype == torch.float64
    weights = torch.from_numpy(rng.normal(size=4))

    def losses(state: torch.Tensor) -> torch.Tensor:
        envs.set_state(start)
        envs.physics_state = state
        return sum(obs @ weights + rewards for obs, rewards, *_ in play_steps(envs, actions[0]))

    leaf = begun.clone().requires_grad_()
    losses(leaf).sum().backward()
    for field in LEAVES:
        columns = range(*envs.physics_state_fields[field].indices(begun.shape[1]))
        gradient = leaf.grad[:, columns]
        assert (gradient.abs().amax(1) > 1e-4).all(), field
        for size, bar in BARS.items():
            found = [difference(losses, begun, column, size) for column in columns]
            error = (gradient - torch.stack(found, 1)).norm() / gradient.norm()
            assert error < bar, (field, error)


def _ball(env: Any = None, **options: Any) -> Any:
    options = {"randomization_fn": draw_ball, **options}
    envs = make_batch(env or FallingBall(), 3, **options)
    envs.reset(seed=0)
    return envs


def _leaf(envs: Any) -> torch.Tensor:
    """Return a state that the batch goes on from, as the leaf of a graph."""
    state = envs.physics_state.detach().clone().requires_grad_()
    envs.physics_state = state
    return state


def test_gradient__is_the_slope_by_gravity_and_mass(residuals: str) -> None:
    envs = _ball(residuals=residuals)
    fields, state = envs.physics_state_fields, _leaf(envs)
    assert fields[GRAVITY].stop - fields[GRAVITY].start == 3
    action = torch.tensor([[0.5], [1.0], [-0.5]])
    speed = play_steps(envs, [action] * 3)[-1][0][:, 1]
    slopes = torch.autograd.grad(speed.sum(), state)[0]
    mass = state.detach()[:, fields["physics.link.mass"]]
    expected = -3 * 0.1 * 3 * action / mass**2  # speed = 3 * 0.1 * (gravity + 3 * action / mass)
    torch.testing.assert_close(slopes[:, fields["physics.link.mass"]], expected)
    torch.testing.assert_close(slopes[:, fields[GRAVITY]], torch.tensor([[0, 0, 0.3]] * 3))


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_gradient__does_not_reach_from_an_episode_into_the_earlier_one(mode: str) -> None:
    envs = _ball(autoreset_mode=mode, max_episode_steps=2)
    fields, state = envs.physics_state_fields, _leaf(envs)
    columns = [fields["physics.link.mass"].start, fields[GRAVITY].stop - 1]
    action = torch.full((3, 1), 0.5)
    last = play_steps(envs, [action] * 2)[-1]
    final = last[4]["final_obs"] if mode == "SameStep" else last[0]
    reached = torch.autograd.grad(final.sum(), state, retain_graph=True)[0]
    assert (reached[:, columns] != 0).all()
    results = play_steps(envs, [action] * 2)
    assert not (envs.physics_state.detach()[:, columns] == state.detach()[:, columns]).any()
    later = sum(obs.sum() + rewards.sum() for obs, rewards, *_ in results)
    assert later.requires_grad
    severed = torch.autograd.grad(later, state, allow_unused=True)[0]
    assert severed is None or not severed.any()
