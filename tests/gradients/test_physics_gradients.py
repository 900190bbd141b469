"""Gradients with respect to the physics that an episode drew."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.falling_ball import make_ball
from tests.support.python_runs import run_python
from tests.support.rollouts import play_steps

SCRIPT = "tests.support.physics_differences"
GRAVITY = "physics.gravity"
BARS = (1e-5, 1e-6)  # of the wide and the narrow difference


@pytest.mark.slow
def test_gradients__are_those_of_central_differences() -> None:
    """In float64. The differences of two steps agree, so the loss is smooth there."""
    found = json.loads(run_python("-m", SCRIPT, JAX_ENABLE_X64="1").lines[-1])
    assert list(found) == [GRAVITY, "physics.geom_friction", "pipeline_state.mass"]
    for field, figures in found.items():
        gradient, wide, narrow = map(np.asarray, figures)
        assert (np.abs(gradient).max(1) > 1e-4).all(), field
        for difference, bar in zip((wide, narrow), BARS, strict=True):
            error = np.linalg.norm(gradient - difference) / np.linalg.norm(gradient)
            assert error < bar, (field, error)


def _ball(**options: Any) -> Any:
    options = {"arrays": "torch", "differentiable": True, **options}
    envs = make_ball(3, **options)
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


def test_gradient__of_given_physics_is_that_of_the_state() -> None:
    envs = _ball()
    envs.reset(seed=0, options={"randomization": {"link.mass": np.float32([1, 2, 3])}})
    fields, state = envs.physics_state_fields, _leaf(envs)
    assert state.detach()[:, fields["physics.link.mass"]].ravel().tolist() == [1, 2, 3]
    speed = envs.step(torch.ones(3, 1))[0][:, 1]
    slopes = torch.autograd.grad(speed.sum(), state)[0][:, fields["physics.link.mass"]]
    torch.testing.assert_close(slopes, -0.3 / torch.tensor([[1.0], [4], [9]]))
