"""Torch on a stream of its own: actions come from it late, and observations are read on it."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import torch

from tests.support.batches import to_numpy
from tests.support.gpu_work import busy_jax, busy_torch, finish, make, own_stream
from tests.support.point_mass import make_batch as make_masses
from tests.support.trees import assert_same

pytestmark = pytest.mark.gpu

NUM_STEPS = 8


def run(envs: Any, table: np.ndarray, device: torch.device, jax_device: Any) -> Any:
    """Return what a policy got whose actions depend on observations, copied on its own stream.

    Before each step torch's stream is busy, so that actions come late; after it JAX's is, so that
    observations come late; and all that was exchanged is overwritten at once.
    """
    steps = torch.tensor(table, device=device)
    obs, _ = envs.reset(seed=3)
    log = []
    for action in steps:
        busy_torch(device, 20_000_000)
        given = action + 0.1 * obs[:, :1]
        kept = busy_jax(jax_device)
        obs, rewards, terminations, truncations, _ = envs.step(given)
        given.fill_(93)
        log.append([x.clone() for x in (obs, rewards, terminations, truncations)])
        obs = log[-1][0]
        rewards.fill_(93)
        over = terminations | truncations
        terminations.fill_(True)
        if envs.autoreset_mode.value == "Disabled" and len(log) % 5 == 0:
            obs = envs.reset(options={"reset_mask": over})[0].clone()
        del kept
    return log


@pytest.mark.parametrize("engine", ["plain", "gradients", "pendulum"])
def test_run__on_its_own_stream_is_that_of_the_cpu(
    engine: str, mode: str, device: str, torch_device: Any, jax_device: Any
) -> None:
    envs, twin = make(engine, mode, device), make(engine, mode, "cpu")
    size = envs.single_action_space.shape[0]
    table = np.random.default_rng(0).uniform(-0.3, 0.3, (NUM_STEPS, 4, size)).astype(np.float32)
    wanted = to_numpy(run(twin, table, torch.device("cpu"), jax.devices("cpu")[0]))
    with own_stream(torch_device):
        run(envs, table, torch_device, jax_device)  # compiles
        found = run(envs, table, torch_device, jax_device)
    finish(torch_device)
    assert_same(to_numpy(found), wanted, digits=1e-4)
    assert np.any([step[3] for step in wanted])


@pytest.mark.parametrize("residuals", ["store", "recompute"])
def test_backward_pass__follows_the_stream_of_its_forward_pass(
    residuals: str, device: str, torch_device: Any
) -> None:
    """On CUDA it runs in a thread of torch's, on the stream that the forward pass had."""
    found = []
    for place, one in (("cpu", torch.device("cpu")), (device, torch_device)):
        envs = make_masses(residuals=residuals, device=place)
        with own_stream(one):
            for _ in range(2):
                weights = torch.full((4, 2), 0.05, device=one, requires_grad=True)
                obs, _ = envs.reset(seed=3)
                loss = torch.zeros((), device=one)
                for _ in range(4):
                    busy_torch(one, 20_000_000)
                    obs, rewards, *_ = envs.step(torch.tanh(obs @ weights))
                    loss = loss - rewards.sum() + (obs * obs).sum()
                busy_torch(one, 20_000_000)
                loss.backward()
                gradient = weights.grad.clone()
                weights.grad.fill_(93)
        finish(one)
        found.append(gradient.cpu())
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
    assert found[0].abs().max() > 0.1
