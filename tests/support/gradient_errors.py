"""Gradients of windows of steps on a device beside those on the CPU, in float64.

``python -m tests.support.gradient_errors DEVICE`` prints JSON: for each case the largest error,
relative to the largest entry of the gradient, and that of the loss. It needs ``JAX_ENABLE_X64=1``,
in a process of its own: on CUDA torch runs the backward pass in a thread, where `jax.enable_x64`
does not hold.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from tests.support.point_mass import make_batch
from tests.support.rollouts import SEED, draw_actions, ends_of, loss_of, play_steps, steps_of

CASES = [("NextStep", "store"), ("SameStep", "recompute"), ("Disabled", "store")]


def measure(device: str) -> dict[str, list[float]]:
    """Return the errors of gradient and loss of each case."""
    found = {}
    for mode, residuals in CASES:
        options = {"autoreset_mode": mode, "residuals": residuals, "max_episode_steps": 6}
        pair = [make_batch(device=place, **options) for place in ("cpu", device)]
        for is_window in (False, True):
            name = f"{mode}, {residuals}, {'unroll' if is_window else 'steps'}"
            found[name] = _compare([_pull(envs, is_window) for envs in pair])
    return found


def _pull(envs: Any, is_window: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradient of all that has one by actions, and the loss."""
    envs.reset(seed=SEED)
    actions = draw_actions().detach().double().to(envs.device).requires_grad_()
    results = steps_of(envs.unroll(actions)) if is_window else play_steps(envs, actions)
    assert results[0][0].dtype == torch.float64
    assert ends_of(results).any()
    loss = loss_of(results)
    loss.backward()
    assert actions.grad.device == envs.device
    return actions.grad.cpu(), loss.detach().cpu()


def _compare(pair: list[tuple[torch.Tensor, torch.Tensor]]) -> list[float]:
    (wanted, loss), (found, other) = pair
    largest = wanted.abs().max()
    assert largest > 1e-3
    return [((found - wanted).abs().max() / largest).item(), abs((other - loss) / loss).item()]


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
