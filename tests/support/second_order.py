"""Second derivatives of point masses in float64, beside those of plain JAX: prints JSON.

It needs ``JAX_ENABLE_X64=1``. Errors are relative to the largest number of plain JAX's result.
"""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from gymbridge.gradients.autograd import JaxFunction
from tests.support.point_mass import NUM_ENVS, SIZE, make_batch
from tests.support.rollouts import (
    SEED,
    draw_actions,
    ends_of,
    loss_of,
    play_steps,
    row_loss,
    steps_of,
)

RNG = np.random.default_rng(3)


def second(loss: torch.Tensor, actions: torch.Tensor, direction: np.ndarray) -> np.ndarray:
    """Return the product of the Hessian with a direction."""
    (gradient,) = torch.autograd.grad(loss, actions, create_graph=True)
    return torch.autograd.grad(gradient, actions, torch.from_numpy(direction))[0].numpy()


def second_by_hand(
    mode: str, actions: torch.Tensor, direction: np.ndarray, ended: np.ndarray
) -> np.ndarray:
    """Return the same by ``jax.jvp`` of ``jax.grad``, row by row."""
    plain, found = jnp.asarray(actions.detach().numpy()), []
    for row in range(NUM_ENVS):
        pull = jax.grad(lambda given, row=row: row_loss(given, mode, row, ended[:, row]))
        found.append(jax.jvp(pull, (plain[:, row],), (jnp.asarray(direction[:, row]),))[1])
    return np.stack(found, 1)


def compare_products(mode: str, residuals: str, verb: str) -> dict[str, float]:
    """Return the error of the product, step by step or as one node, and how many episodes ended."""
    envs = make_batch(autoreset_mode=mode, residuals=residuals, max_episode_steps=6)
    actions = draw_actions().detach().double().requires_grad_()
    direction = RNG.normal(size=actions.shape)
    envs.reset(seed=SEED)
    results = play_steps(envs, actions) if verb == "step" else steps_of(envs.unroll(actions))
    wanted = second_by_hand(mode, actions, direction, ends_of(results))
    error = np.abs(second(loss_of(results), actions, direction) - wanted).max()
    return {"error": float(error / np.abs(wanted).max()), "ends": int(ends_of(results).sum())}


def check_by_differences(residuals: str, verb: str) -> bool:
    """Return whether torch's own check finds the second derivatives of two steps right."""
    envs = make_batch(num_envs=2, residuals=residuals)
    envs.reset(seed=SEED)
    start, state = envs.get_state(), envs.physics_state.clone().requires_grad_()
    actions = torch.full((2, 2, SIZE), 0.1, dtype=torch.float64, requires_grad=True)

    def play(state: Any, actions: Any) -> Any:
        envs.set_state(start)
        envs.physics_state = state
        if verb == "unroll":
            return envs.unroll(actions)[:2]
        envs.step(actions[0])
        return envs.step(actions[1])[:2]

    return torch.autograd.gradgradcheck(play, (state, actions))


def check_third() -> bool:
    """Return whether third and fourth derivatives of a function are right."""

    def function(inputs: Any, rest: Any) -> Any:
        return (jnp.sin(inputs[0]) * inputs[1] * rest, (inputs[0] ** 2 * inputs[1]).sum()), None

    call = JaxFunction(function)

    def second(x: Any, y: Any) -> Any:
        values = tuple(tensor.detach().clone().numpy() for tensor in (x, y))
        curved, total = call(values, (x, y), 2.0).tensors
        first = torch.autograd.grad(curved.pow(3).sum() + total, (x, y), create_graph=True)
        return torch.autograd.grad(
            (first[0] ** 2).sum() + first[1].sum(), (x, y), create_graph=True
        )

    given = tuple(torch.from_numpy(RNG.normal(size=2)).requires_grad_() for _ in range(2))
    return torch.autograd.gradcheck(second, given) and torch.autograd.gradgradcheck(second, given)


if __name__ == "__main__":
    found = {
        "products": [
            compare_products("NextStep", "store", "unroll"),
            compare_products("SameStep", "recompute", "step"),
            compare_products("Disabled", "recompute", "unroll"),
        ],
        "differences": [
            check_by_differences("store", "step"),
            check_by_differences("recompute", "unroll"),
        ],
        "third": check_third(),
    }
    print(json.dumps(found))
