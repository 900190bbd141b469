"""Gradients in every mode are those of plain JAX, episode by episode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.support.player import play
from tests.support.point_mass import NUM_ENVS, make_batch, shared_batch
from tests.support.rollouts import (
    IN_EACH_MODE,
    SEED,
    draw_actions,
    ends_of,
    expected,
    loss_of,
    play_steps,
    small_actions,
    steps_of,
)
from tests.support.trees import assert_same

OPTIONS = [
    {"autoreset_mode": mode, "residuals": residuals, "device": device}
    for mode, residuals, device in [
        *((*pair, "cpu") for pair in IN_EACH_MODE),
        ("SameStep", "recompute", "cpu:all"),
    ]
]
"""Each mode on one CPU device, and one over two; test_two_devices.py has another one."""


def run(envs: Any) -> tuple[torch.Tensor, list[Any], torch.Tensor]:
    """Return actions, the results of their steps, and the gradient of the loss by them."""
    envs.reset(seed=SEED)
    actions = draw_actions()
    results = play_steps(envs, actions)
    (gradient,) = torch.autograd.grad(loss_of(results), actions)
    return actions, results, gradient


@pytest.mark.parametrize("options", OPTIONS)
def test_gradient__is_that_of_each_episode_by_itself_in_steps_and_as_one_node(
    options: dict[str, str],
) -> None:
    envs = shared_batch(**options)
    assert envs._runner.rule.simulator.num_devices == (2 if options["device"] == "cpu:all" else 1)
    actions, results, gradient = run(envs)
    ended = ends_of(results)
    assert 2 < ended.sum() < ended.size - 5, "ends and ordinary steps are both met"
    losses, wanted = expected(options["autoreset_mode"], actions, ended)
    assert loss_of(results).item() == pytest.approx(losses.sum(), rel=1e-4)
    np.testing.assert_allclose(gradient.numpy(), wanted, rtol=2e-5, atol=2e-6)
    after = envs.detach(), envs.physics_state, *envs.step(actions[0].detach())
    envs.reset(seed=SEED)
    unrolled = steps_of(envs.unroll(actions))
    (found,) = torch.autograd.grad(loss_of(unrolled), actions)
    torch.testing.assert_close(found, gradient, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(unrolled, results, rtol=1e-6, atol=1e-6)
    goes_on = envs.detach(), envs.physics_state, *envs.step(actions[0].detach())
    torch.testing.assert_close(goes_on, after, rtol=1e-6, atol=1e-6)


def test_unroll__goes_on_from_a_graph_and_into_one() -> None:
    envs = shared_batch()
    actions, _, gradient = run(envs)
    envs.reset(seed=SEED)
    results = play_steps(envs, actions[:3])
    results += steps_of(envs.unroll(actions[3:7]))
    results += play_steps(envs, actions[7:])
    (found,) = torch.autograd.grad(loss_of(results), actions)
    torch.testing.assert_close(found, gradient, rtol=1e-5, atol=1e-6)


def test_partial_reset__cuts_its_rows_alone() -> None:
    """Rows outside the mask keep their graph, so that a Disabled loop can go on."""
    envs = shared_batch(autoreset_mode="Disabled")
    envs.reset(seed=SEED)
    actions = small_actions(4)
    play_steps(envs, actions[:2])
    mask = torch.tensor([True, False, False, True])
    obs, _ = envs.reset(options={"reset_mask": mask})
    (at_reset,) = torch.autograd.grad(obs.sum(), actions, retain_graph=True)
    assert (at_reset[:2, mask] == 0).all()
    assert (at_reset[:2, ~mask] != 0).any(-1).all()
    results = play_steps(envs, actions[2:])
    (later,) = torch.autograd.grad(results[-1][0].sum() + results[-1][1].sum(), actions)
    assert (later[:2, mask] == 0).all()
    assert (later[:2, ~mask] != 0).any(-1).all()
    assert (later[3] != 0).any(-1).all()


def test_held_rows__keep_the_graph_of_their_observation() -> None:
    envs = shared_batch(autoreset_mode="Disabled")
    envs.reset(seed=SEED)
    actions = torch.full((8, NUM_ENVS, 2), 0.05, requires_grad=True)
    results = play_steps(envs, actions)
    has_rewards = [(rewards != 0).all().item() for _, rewards, *_ in results]
    assert has_rewards == [True] * 6 + [False] * 2
    (gradient,) = torch.autograd.grad(results[-1][0].sum(), actions, retain_graph=True)
    (at_end,) = torch.autograd.grad(results[5][0].sum(), actions)
    assert torch.equal(gradient, at_end)
    assert (gradient[6:] == 0).all()
    assert (gradient[:6] != 0).any()


def test_infos_and_flags__have_no_gradient_and_a_full_reset_cuts_the_graph() -> None:
    envs = shared_batch(autoreset_mode="SameStep", residuals="recompute")
    _, results, _ = run(envs)
    _, _, terminations, truncations, infos = results[-1]
    found = {key for key, value in infos.items() if getattr(value, "requires_grad", False)}
    assert found == {"final_obs"}
    assert not terminations.requires_grad
    assert not truncations.requires_grad
    assert not envs.reset()[0].requires_grad
    assert not envs.step(torch.zeros(NUM_ENVS, 2))[0].requires_grad


def test_values__are_those_without_gradients(mode: str) -> None:
    """With observations in a dict, some environments reset by hand, and some held."""
    options = {"autoreset_mode": mode, "max_episode_steps": 6, "is_dict": True}
    runs = []
    for differentiable in (True, False):
        envs = make_batch(differentiable=differentiable, **options)
        actions = draw_actions(20).requires_grad_(differentiable)
        rng = np.random.default_rng(0)
        runs.append(play(envs, 20, seed=SEED, act=actions.__getitem__, disturb=rng))
    assert_same(*runs, digits=1e-6)


def test_step_some__has_the_gradient_of_the_steps_that_were_taken() -> None:
    """Row 1 is held in the second step, so its third call is its second step."""
    envs = make_batch(autoreset_mode="Disabled")
    actions = draw_actions()[:3].detach().requires_grad_()
    moved = torch.tensor([True, False, True, True])

    envs.reset(seed=SEED)
    first, held = envs.step(actions[0]), envs.step_some(actions[1], moved)
    torch.testing.assert_close(held[0][1], first[0][1])
    assert held[1][1] == 0
    last = envs.step(actions[2])
    losses = held[1].sum() + last[1].sum() + last[0].sum()
    (found,) = torch.autograd.grad(losses, actions)
    assert (found[1, 1] == 0).all()
    assert (found[0, 1] != 0).any(), "the graph goes through the held row"

    envs.reset(seed=SEED)
    results = [envs.step(actions[0])]
    swapped = torch.where(moved.unsqueeze(-1), actions[1], actions[2])
    results += [envs.step(swapped), envs.step(actions[2])]
    rows = ~moved
    expected = results[1][1].sum() + (results[2][1] + results[2][0].sum(-1))[moved].sum()
    expected = expected + results[1][0][rows].sum()
    (wanted,) = torch.autograd.grad(expected, actions)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
