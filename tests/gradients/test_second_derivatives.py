"""Second derivatives are those of plain JAX, cut where the first ones are, and leave nothing."""

from __future__ import annotations

import gc
import json
from typing import Any

import jax
import numpy as np
import pytest
import torch

from tests.support.point_mass import NUM_ENVS, PointMass
from tests.support.python_runs import run_python
from tests.support.rollouts import SEED, play_steps, run, small_actions

SCRIPT = "tests.support.second_order"


@pytest.mark.slow
def test_products_with_the_hessian__are_those_of_jax_in_float64() -> None:
    found = json.loads(run_python("-m", SCRIPT, JAX_ENABLE_X64="1").lines[-1])
    for case in found["products"]:
        assert case["ends"] > 2
        assert case["error"] < 1e-9, found
    assert found["differences"] == [True, True]
    assert found["third"]


def product(loss: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    """Return the Hessian times ones."""
    (gradient,) = torch.autograd.grad(loss, actions, create_graph=True)
    return torch.autograd.grad(gradient, actions, torch.ones_like(actions))[0]


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
