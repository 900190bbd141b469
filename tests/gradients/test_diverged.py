"""A row that leaves the finite numbers carries no NaN into values or gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from point_mass import PointMass, shared_batch
from rollouts import SEED, draw_actions, draw_weights, expected, loss_of, play_steps

from gymbridge import BraxVectorEnv

NUM_ENVS, NUM_STEPS, BURST = 4, 6, (2, 1)
"""In step 2, row 1 gets an action under which the point has no finite place."""


def burst_actions() -> torch.Tensor:
    actions = draw_actions(NUM_STEPS, NUM_ENVS, scale=0.2)
    actions[BURST] = 100.0
    return actions.requires_grad_()


def run(mode: str, residuals: str = "store", nonfinite: str = "terminate") -> Any:
    envs = shared_batch(
        NUM_ENVS,
        autoreset_mode=mode,
        max_episode_steps=-1,
        residuals=residuals,
        nonfinite=nonfinite,
    )
    envs.reset(seed=SEED)
    actions = burst_actions()
    return actions, play_steps(envs, actions)


@pytest.mark.parametrize("residuals", ["store", "recompute"])
def test_step__has_a_gradient_of_exactly_zero_in_that_row(mode: str, residuals: str) -> None:
    actions, shown = run(mode, residuals)
    step, row = BURST
    assert shown[step][4]["nonfinite"].tolist() == [False, True, False, False]
    assert shown[step][2].tolist() == [False, True, False, False]
    for obs, rewards, *_ in shown:
        assert obs.isfinite().all()
        assert rewards.isfinite().all()
    loss_of(shown, draw_weights(NUM_STEPS, NUM_ENVS)).backward()
    gradient = actions.grad
    assert gradient is not None
    assert gradient.isfinite().all()
    assert (gradient[step, row] == 0).all()
    if mode != "SameStep":  # held, or begun anew
        assert (gradient[step + 1, row] == 0).all()
    assert (gradient[:step, row] != 0).all(), "what came before keeps its own"


def test_gradients__of_the_other_rows_are_those_without_it(mode: str) -> None:
    actions, shown = run(mode)
    weights = draw_weights(NUM_STEPS, NUM_ENVS)
    (gradient,) = torch.autograd.grad(loss_of(shown, weights), actions)
    ended = torch.stack([terminated | cut for _, _, terminated, cut, _ in shown]).numpy()
    _, wanted = expected(mode, actions.detach().numpy(), ended, weights)
    others = [0, 2, 3]
    np.testing.assert_allclose(gradient[:, others], wanted[:, others], rtol=2e-5, atol=2e-6)


def test_steps_before__have_the_gradient_of_what_was_shown_until_then(mode: str) -> None:
    step, row = BURST
    actions, shown = run(mode)
    weights = draw_weights(NUM_STEPS, NUM_ENVS)
    (gradient,) = torch.autograd.grad(loss_of(shown, weights), actions)
    before = actions[:step].detach().numpy()
    _, wanted = expected(mode, before, np.zeros((step, NUM_ENVS), bool), weights)
    np.testing.assert_allclose(gradient[:step, row], wanted[:, row], rtol=2e-5, atol=2e-6)


def test_shared_parameters__stay_finite(mode: str) -> None:
    envs = shared_batch(NUM_ENVS, autoreset_mode=mode, max_episode_steps=-1)
    obs, _ = envs.reset(seed=SEED)
    weights = torch.full((4, 2), 0.1, requires_grad=True)
    push = torch.zeros(NUM_STEPS, NUM_ENVS, 2)
    push[BURST] = 100.0
    loss = torch.zeros(())
    for step in range(NUM_STEPS):
        obs, rewards, *_ = envs.step(obs @ weights + push[step])
        loss = loss + rewards.sum() + obs.sum()
    loss.backward()
    assert weights.grad is not None
    assert weights.grad.isfinite().all()
    assert (weights.grad != 0).all()


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
    options = {"arrays": "torch", "differentiable": True, "max_episode_steps": -1}
    envs = BraxVectorEnv(DelayedMass(), NUM_ENVS, autoreset_mode=mode, **options)
    obs, _ = envs.reset(seed=SEED)
    weights = torch.full((4, 2), 0.1, requires_grad=True)
    step, row = BURST
    push = torch.zeros(NUM_STEPS, NUM_ENVS, 2)
    push[BURST] = 100.0
    push.requires_grad_()
    loss, told = torch.zeros(()), []
    for index in range(NUM_STEPS):
        obs, rewards, *_, infos = envs.step(obs @ weights + push[index])
        loss = loss + rewards.sum() + obs.sum()
        told.append(infos["nonfinite"][row].item())
    loss.backward()
    assert told.index(True) == step + 1
    assert weights.grad.isfinite().all()
    assert push.grad.isfinite().all()
    assert (push.grad[step : step + 2, row] == 0).all()
    assert (push.grad[:-1, [0, 2, 3]] != 0).all()


def test_unroll__stays_finite(mode: str) -> None:
    envs = shared_batch(NUM_ENVS, autoreset_mode=mode, max_episode_steps=-1)
    actions, shown = run(mode)
    weights = draw_weights(NUM_STEPS, NUM_ENVS)
    (stepped,) = torch.autograd.grad(loss_of(shown, weights), actions)
    envs.reset(seed=SEED)
    obs, rewards, _, _, infos = envs.unroll(actions)
    loss = (torch.from_numpy(weights.obs) * obs).sum()
    loss = loss + (torch.from_numpy(weights.reward) * rewards).sum()
    if "final_obs" in infos:
        loss = loss + (torch.from_numpy(weights.final) * infos["final_obs"]).sum()
    (unrolled,) = torch.autograd.grad(loss, actions)
    torch.testing.assert_close(unrolled, stepped, rtol=1e-5, atol=1e-6)


def test_ignore__hands_on_values_and_gradients_as_they_come() -> None:
    actions, shown = run("NextStep", nonfinite="ignore")
    step, row = BURST
    assert shown[step][0][row].isnan().any()
    (gradient,) = torch.autograd.grad(shown[step][0].sum(), actions)
    assert gradient[step, row].isnan().any()
    assert gradient[step, [0, 2, 3]].isfinite().all()


def test_physics_state__of_a_diverged_row_holds_no_nan_in_what_is_read() -> None:
    """The positions are those that diverged; observation, reward, flag and infos are finite."""
    envs = shared_batch(NUM_ENVS, autoreset_mode="Disabled", max_episode_steps=-1)
    envs.reset(seed=SEED)
    for actions in burst_actions().detach()[: BURST[0] + 1]:
        envs.step(actions)
    state, fields = envs.physics_state, envs.physics_state_fields
    assert state[BURST[1], fields["done"]].tolist() == [1]
    for name, place in fields.items():
        if not name.startswith("pipeline_state"):
            assert state[:, place].isfinite().all(), name
