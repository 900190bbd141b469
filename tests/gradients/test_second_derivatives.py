"""Second derivatives are those of plain JAX, cut where the first ones are, and leave nothing."""

from __future__ import annotations

import gc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from gymbridge.gradients.autograd import JaxFunction
from tests.support.point_mass import NUM_ENVS, SIZE, PointMass, make_batch
from tests.support.rollouts import (
    SEED,
    draw_actions,
    ends_of,
    loss_of,
    play_steps,
    row_loss,
    run,
    small_actions,
    steps_of,
)


def product(loss: torch.Tensor, actions: torch.Tensor, along: Any = None) -> torch.Tensor:
    """Return the product of the Hessian with a direction, by default with ones."""
    along = torch.ones_like(actions) if along is None else along
    (gradient,) = torch.autograd.grad(loss, actions, create_graph=True)
    return torch.autograd.grad(gradient, actions, along)[0]


def product_by_hand(mode: str, actions: Any, along: Any, ended: np.ndarray) -> np.ndarray:
    """Return the same by ``jax.jvp`` of ``jax.grad``, row by row."""
    plain, along, found = jnp.asarray(actions.detach().numpy()), jnp.asarray(along), []
    for row in range(NUM_ENVS):
        pull = jax.grad(lambda given, row=row: row_loss(given, mode, row, ended[:, row]))
        found.append(jax.jvp(pull, (plain[:, row],), (along[:, row],))[1])
    return np.stack(found, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "residuals", "verb"),
    [
        ("NextStep", "store", "unroll"),
        ("SameStep", "recompute", "step"),
        ("Disabled", "recompute", "unroll"),
    ],
)
@jax.enable_x64(True)
def test_products_with_the_hessian__are_those_of_jax_in_float64(
    mode: str, residuals: str, verb: str
) -> None:
    envs = make_batch(autoreset_mode=mode, residuals=residuals, max_episode_steps=6)
    actions = draw_actions().detach().double().requires_grad_()
    along = np.random.default_rng(3).normal(size=actions.shape)
    envs.reset(seed=SEED)
    results = play_steps(envs, actions) if verb == "step" else steps_of(envs.unroll(actions))
    ended = ends_of(results)
    assert ended.sum() > 2
    wanted = product_by_hand(mode, actions, along, ended)
    found = product(loss_of(results), actions, torch.from_numpy(along)).numpy()
    assert np.abs(found - wanted).max() < 1e-9 * np.abs(wanted).max()


@pytest.mark.slow
@pytest.mark.parametrize(("residuals", "verb"), [("store", "step"), ("recompute", "unroll")])
@jax.enable_x64(True)
def test_second_derivatives__pass_torch_s_own_check(residuals: str, verb: str) -> None:
    envs = make_batch(num_envs=2, residuals=residuals)
    envs.reset(seed=SEED)
    start, state = envs.get_state(), envs.physics_state.clone().requires_grad_()
    actions = torch.full((2, 2, SIZE), 0.1, dtype=torch.float64, requires_grad=True)

    def play(state: Any, actions: Any) -> Any:
        envs.set_state(start)
        envs.physics_state = state
        if verb == "unroll":
            return envs.unroll(actions)[:2]
        return play_steps(envs, actions)[-1][:2]

    assert torch.autograd.gradgradcheck(play, (state, actions))


@pytest.mark.slow
@jax.enable_x64(True)
def test_third_and_fourth_derivatives__pass_torch_s_own_check() -> None:
    def function(inputs: Any, rest: Any) -> Any:
        return (jnp.sin(inputs[0]) * inputs[1] * rest, (inputs[0] ** 2 * inputs[1]).sum()), None

    call = JaxFunction(function)

    def second(x: Any, y: Any) -> Any:
        values = tuple(tensor.detach().clone().numpy() for tensor in (x, y))
        curved, total = call(values, (x, y), 2.0).tensors
        first = torch.autograd.grad(curved.pow(3).sum() + total, (x, y), create_graph=True)
        both = (first[0] ** 2).sum() + first[1].sum()
        return torch.autograd.grad(both, (x, y), create_graph=True)

    given = torch.from_numpy(np.random.default_rng(3).normal(size=(2, 2)))
    pair = tuple(row.clone().requires_grad_() for row in given)
    assert torch.autograd.gradcheck(second, pair)
    assert torch.autograd.gradgradcheck(second, pair)


def test_hessian__is_that_of_jax(envs: Any) -> None:
    """The loss is curved around the step, too."""

    def reward_of(action: Any, row: int) -> Any:
        env = PointMass()
        key = jax.random.fold_in(jax.random.PRNGKey(SEED + row), 0)
        return env.step(env.reset(key), action).reward ** 3

    given = small_actions(1)[0].detach()
    found = torch.autograd.functional.hessian(
        lambda action: (envs.step(action)[1] ** 3).sum(), given
    )
    for row in range(NUM_ENVS):
        wanted = jax.hessian(reward_of)(jax.numpy.asarray(given[row].numpy()), row)
        np.testing.assert_allclose(found[row, :, row], wanted, rtol=1e-4, atol=1e-5)
        assert not found[row][:, [other for other in range(NUM_ENVS) if other != row]].any()


def test_detach__has_no_second_derivative_across_it(envs: Any, actions: torch.Tensor) -> None:
    play_steps(envs, actions[:1])
    envs.detach()
    found = product(run(envs, actions[1:]), actions)
    assert not found[0].any()
    assert (found[1:] != 0).any(-1).all()


def test_actions__that_are_written_in_place_are_refused(envs: Any, actions: torch.Tensor) -> None:
    given = actions[0] * 1
    loss = envs.step(given)[1].sum()
    given.mul_(2)
    torch.autograd.grad(loss, actions, retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an operation in place"):
        torch.autograd.grad(loss, actions, create_graph=True)


def test_actions__that_change_without_a_graph_change_nothing(
    envs: Any, actions: torch.Tensor
) -> None:
    """Neither in first derivatives nor in second ones."""
    found = []
    for is_spoilt in (False, True):
        envs.reset(seed=SEED)
        given = actions[0] * 1
        loss = (envs.step(given)[0] ** 2).sum()
        if is_spoilt:
            with torch.no_grad():
                given.fill_(93.0)
        (gradient,) = torch.autograd.grad(loss, actions, retain_graph=True)
        found.append((gradient, product(loss, actions)))
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_second_derivatives__leave_nothing_behind(envs: Any) -> None:
    alive = []
    for _ in range(4):
        envs.detach()
        actions = small_actions()
        product(run(envs, actions), actions)
        gc.collect()
        alive.append(len(jax.live_arrays()))
    assert alive[2] == alive[3]


def test_batched_gradients__are_refused(envs: Any, actions: torch.Tensor) -> None:
    obs = envs.step(actions[0])[0]
    rows = torch.eye(4).unsqueeze(1).expand(4, NUM_ENVS, 4)
    with pytest.raises(RuntimeError, match=r"take many by torch\.func; leave them out"):
        torch.autograd.grad(obs, actions, rows, is_grads_batched=True)
