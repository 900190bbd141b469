"""A row that leaves the finite numbers carries no NaN into values or gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from tests.support.point_mass import NUM_ENVS, PointMass, make_batch, shared_batch
from tests.support.rollouts import (
    IN_EACH_MODE,
    NUM_STEPS,
    SEED,
    ends_of,
    expected,
    loss_of,
    play_steps,
    small_actions,
    steps_of,
)

STEP, ROW = 2, 1
"""In that step, that row gets an action under which the point has no finite place."""

OTHERS = [0, 2, 3]


def burst_actions() -> torch.Tensor:
    actions = small_actions(NUM_STEPS).detach()
    actions[STEP, ROW] = 100.0
    return actions.requires_grad_()


def gradient_of(results: list[Any], actions: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(loss_of(results), actions)[0]


@pytest.mark.parametrize(("mode", "residuals"), IN_EACH_MODE)
def test_step__has_a_gradient_of_exactly_zero_in_that_row_alone(mode: str, residuals: str) -> None:
    envs, actions = shared_batch(autoreset_mode=mode, residuals=residuals), burst_actions()
    envs.reset(seed=SEED)
    results = play_steps(envs, actions)
    assert results[STEP][4]["nonfinite"].tolist() == [False, True, False, False]
    assert results[STEP][2].tolist() == [False, True, False, False]
    for obs, rewards, *_ in results:
        assert obs.isfinite().all()
        assert rewards.isfinite().all()
    gradient = gradient_of(results, actions)
    assert gradient.isfinite().all()
    assert (gradient[STEP, ROW] == 0).all()
    if mode != "SameStep":  # held, or begun anew
        assert (gradient[STEP + 1, ROW] == 0).all()
    _, wanted = expected(mode, actions, ends_of(results))
    np.testing.assert_allclose(gradient[:, OTHERS], wanted[:, OTHERS], rtol=2e-5, atol=2e-6)
    # Before that step it is the gradient of what was returned until then.
    _, wanted = expected(mode, actions[:STEP], np.zeros((STEP, NUM_ENVS), bool))
    assert (wanted != 0).all()
    np.testing.assert_allclose(gradient[:STEP, ROW], wanted[:, ROW], rtol=2e-5, atol=2e-6)
    envs.reset(seed=SEED)
    unrolled = gradient_of(steps_of(envs.unroll(actions)), actions)
    torch.testing.assert_close(unrolled, gradient, rtol=1e-5, atol=1e-6)


def test_step__has_second_derivatives_of_exactly_zero_in_that_row_alone(residuals: str) -> None:
    envs, actions = shared_batch(residuals=residuals), burst_actions()
    envs.reset(seed=SEED)
    loss = loss_of(play_steps(envs, actions))
    (gradient,) = torch.autograd.grad(loss, actions, create_graph=True)
    (found,) = torch.autograd.grad(gradient, actions, torch.ones_like(actions))
    assert found.isfinite().all()
    assert not found[STEP : STEP + 2, ROW].any()
    assert (found[:STEP, ROW] != 0).any(-1).all()
    assert (found[STEP, OTHERS] != 0).any(-1).all()


class Delayed(NamedTuple):
    """A force that acts one step after it was computed, and is not among what is checked."""

    q: Any
    qd: Any
    force: Any


class DelayedMass(PointMass):
    """The burst leaves the finite numbers in the force first, and in the place a step later."""

    def reset(self, rng: Any) -> Any:
        state = super().reset(rng)
        return state.replace(pipeline_state=Delayed(*state.pipeline_state, jnp.zeros(2)))

    def step(self, state: Any, action: Any) -> Any:
        motion: Any = state.pipeline_state
        speed = motion.qd + 0.1 * action + 1e-3 * motion.force
        after = Delayed(motion.q + 0.1 * speed, speed, jnp.sqrt(30.0 - jnp.abs(action)))
        reward = -(after.q**2).sum()
        return state.replace(pipeline_state=after, obs=self._obs(after), reward=reward)


def test_shared_parameters__stay_finite_where_the_state_is_lost_first(mode: str) -> None:
    envs = make_batch(DelayedMass(), autoreset_mode=mode)
    obs, _ = envs.reset(seed=SEED)
    weights = torch.full((4, 2), 0.1, requires_grad=True)
    push = torch.zeros(NUM_STEPS, NUM_ENVS, 2)
    push[STEP, ROW] = 100.0
    push.requires_grad_()
    loss, is_lost = torch.zeros(()), []
    for index in range(NUM_STEPS):
        obs, rewards, *_, infos = envs.step(obs @ weights + push[index])
        loss = loss + rewards.sum() + obs.sum()
        is_lost.append(infos["nonfinite"][ROW].item())
    loss.backward()
    assert is_lost.index(True) == STEP + 1
    assert weights.grad.isfinite().all()
    assert (weights.grad != 0).all()
    assert push.grad.isfinite().all()
    assert (push.grad[STEP : STEP + 2, ROW] == 0).all()
    assert (push.grad[:-1, OTHERS] != 0).all()


def test_ignore__hands_on_values_and_gradients_as_they_come() -> None:
    envs, actions = shared_batch(nonfinite="ignore"), burst_actions()
    envs.reset(seed=SEED)
    results = play_steps(envs, actions)
    assert results[STEP][0][ROW].isnan().any()
    (gradient,) = torch.autograd.grad(results[STEP][0].sum(), actions)
    assert gradient[STEP, ROW].isnan().any()
    assert gradient[STEP, OTHERS].isfinite().all()


def test_physics_state__of_a_diverged_row_holds_no_nan_in_what_was_seen() -> None:
    """The engine's state is as it left it; the observation is the last finite one."""
    envs = shared_batch(autoreset_mode="Disabled")
    envs.reset(seed=SEED)
    play_steps(envs, burst_actions().detach()[: STEP + 1])
    state, fields = envs.physics_state, envs.physics_state_fields
    assert state[ROW].isnan().any()
    assert state[:, fields["seen.obs"]].isfinite().all()
    assert torch.equal(state[:, fields["seen.obs"]], envs.detach())
