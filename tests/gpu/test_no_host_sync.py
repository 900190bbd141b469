"""A rollout leaves the host free: counted in a profile, refused by the libraries, and by the clock.

XLA's own loops and conditions may read a flag on the host. These show in the profile, too; whether
`step` then waits for them is measured apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from gymbridge.wrappers import NormalizeObservation, NormalizeReward, RecordEpisodeStatistics
from tests.support.batches import make_batch, to_kind
from tests.support.gpu_work import busy_torch, finish, make
from tests.support.host_syncs import count_copies, count_host_syncs, forbid_host_syncs, trace

pytestmark = pytest.mark.gpu

NUM_ENVS = 256


def make_many(engine: str, mode: str, device: str) -> Any:
    envs = make(engine, mode, device, num_envs=NUM_ENVS, limit=20)
    if engine != "fast":
        return envs
    return NormalizeReward(NormalizeObservation(RecordEpisodeStatistics(envs)))


def make_rollout(
    envs: Any, num_steps: int, *, learns: bool, window: int = 10
) -> Callable[[], list[Any]]:
    """Return the function that steps a batch with a small policy, with a loss per window or not.

    It returns the means of the rewards, on the device.
    """
    device, sizes = envs.unwrapped.device, (envs.single_observation_space, envs.single_action_space)
    obs_size, action_size = (space.shape[0] for space in sizes)
    torch.manual_seed(0)
    policy = torch.nn.Sequential(
        torch.nn.Linear(obs_size, 32), torch.nn.Tanh(), torch.nn.Linear(32, action_size)
    ).to(device)
    optimizer = torch.optim.SGD(policy.parameters(), 1e-3)
    obs = [envs.reset(seed=0)[0]]

    def run() -> list[Any]:
        means, loss = [], torch.zeros((), device=device)
        with torch.set_grad_enabled(learns):
            for step in range(num_steps):
                actions = policy(obs[0]) + 0.1 * torch.randn(NUM_ENVS, action_size, device=device)
                obs[0], rewards, *_ = envs.step(actions.clamp(-1, 1))
                means.append(rewards.detach().mean())
                loss = loss - rewards.mean()
                if learns and step % window == window - 1:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    obs[0], loss = envs.detach(), torch.zeros((), device=device)
        return means

    return run


def test_counter__sees_what_torch_and_jax_fetch(
    device: str, is_cuda: bool, torch_device: Any, jax_device: Any
) -> None:
    """Without this, a profiler that is blind to XLA would pass every test below."""
    tensor = torch.ones(3, device=torch_device)
    array = jax.device_put(jnp.ones(3), jax_device)
    double = jax.jit(lambda x: 2 * x)
    double(array).block_until_ready()
    fetches = {"torch": lambda: tensor.sum().item(), "jax": lambda: np.asarray(double(array))}
    for name, fetch in fetches.items():
        counts = count_host_syncs(trace(fetch, device))
        assert (counts.total() > 0) == is_cuda, (name, counts)
        assert count_host_syncs(trace(lambda: tensor + 1, device)).total() == 0


@pytest.mark.parametrize("engine", ["fast", "plain", "gradients"])
def test_100_steps__wait_for_nothing(engine: str, mode: str, device: str) -> None:
    envs = make_many(engine, mode, device)
    run = make_rollout(envs, 100, learns=engine == "gradients")
    run()  # compiles
    with forbid_host_syncs(device):
        events = trace(run, device)
    assert len(events) > 1000
    assert count_host_syncs(events) == {}


@pytest.mark.parametrize("engine", ["fast", "plain", "gradients"])
def test_steps__return_before_the_device_has_taken_them(
    engine: str, mode: str, device: str, is_cuda: bool, torch_device: Any
) -> None:
    """The first step's actions come behind ten kernels of 50 ms or more.

    There are few steps, since a stream holds about a thousand launches, and the next one waits.
    """
    envs = make_many(engine, mode, device)
    run = make_rollout(envs, 3, learns=engine == "gradients", window=3)
    run()  # compiles
    finish(torch_device)
    for _ in range(10):
        busy_torch(torch_device)
    started = time.perf_counter()
    means = run()
    returned = time.perf_counter() - started
    finish(torch_device)
    finished = time.perf_counter() - started
    assert torch.stack(means).isfinite().all()
    assert not is_cuda or returned < finished / 2, (returned, finished)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_step_of_envpool__takes_one_transfer_each_way(
    mode: str, device: str, is_cuda: bool
) -> None:
    """From a pinned buffer, which the next step does not reuse before its transfer is over."""
    envs = make_batch("envpool", mode, limit=7, arrays="torch", num_envs=64, device=device)
    actions = to_kind(np.ones(64, np.int64), "torch", envs.device)
    envs.reset(seed=0)
    kept = [envs.step(actions) for _ in range(2)]  # allocates pinned memory

    def run() -> None:
        kept.extend(envs.step(actions) for _ in range(20))

    copies = count_copies(trace(run, device))
    assert copies["HtoD from Pinned"] == (20 if is_cuda else 0), copies
    assert copies["HtoD from Pageable"] == 0, copies
    assert copies["DtoH from Device"] == (20 if is_cuda else 0), copies
    twin = make_batch("envpool", mode, limit=7, num_envs=64)
    twin.reset(seed=0)
    for found in kept:
        wanted = twin.step(np.ones(64, np.int64))
        np.testing.assert_array_equal(found[0].cpu().numpy(), wanted[0])
