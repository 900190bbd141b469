"""Gradients on the GPU are those of the CPU, to rounding in float64.

Float32 is compared in test_physics.py and test_streams.py.
"""

from __future__ import annotations

import json

import pytest
import torch

from tests.support.point_mass import make_batch
from tests.support.python_runs import run_python
from tests.support.rollouts import SEED

pytestmark = pytest.mark.gpu

SCRIPT = "tests.support.gradient_errors"


def test_float64__differs_by_rounding_alone(device: str) -> None:
    errors = json.loads(run_python("-m", SCRIPT, device, JAX_ENABLE_X64="1").lines[-1])
    assert len(errors) == 6
    assert {name: error for name, error in errors.items() if max(error) > 1e-9} == {}


def test_physics_state__is_a_leaf_on_the_device(device: str) -> None:
    """Its gradient, and writes into what was assigned, while the GPU still works."""
    slopes = []
    for place in ("cpu", device):
        envs = make_batch(device=place)
        envs.reset(seed=SEED)
        state = envs.physics_state.detach().clone().requires_grad_()
        envs.physics_state = state
        with torch.no_grad():
            given = state.clone()
            state.fill_(93)
        obs = envs.step(torch.full((4, 2), 0.1, device=envs.device))[0]
        slopes.append(torch.autograd.grad(obs.sum(), state)[0].cpu())
        assert given.device == envs.device
    torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-4, atol=1e-5)
    assert slopes[0].abs().max() > 0.1
