"""What a user gets and gives is the user's, while the GPU still works on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.support.batches import leaves, make_batch, shared_batch, to_kind, to_numpy
from tests.support.gpu_work import busy_jax, busy_torch, finish, unordered_stream
from tests.support.player import play
from tests.support.trees import assert_same, spoil, unique

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("engine", ["host", "brax", "fast", "envpool", "pendulum"])
def test_run__is_the_same_if_its_user_spoils_everything(
    engine: str, arrays: str, mode: str, device: str
) -> None:
    """In place, or by donation, with nothing waited for between a call and the next."""
    envs = shared_batch(engine, mode, limit=4, arrays=arrays, device=device)
    wanted = play(envs, 14)
    assert_same(play(envs, 14, touch=spoil(arrays, waits=False)), wanted)
    assert_same(play(envs, 14), wanted)


def test_actions__may_be_overwritten_while_jax_is_busy(
    device: str, torch_device: Any, jax_device: Any
) -> None:
    """A step that read the user's own memory would read what is written there later.

    It is written on another stream, since torch's current one waits for the results of the step.
    """
    envs = shared_batch("brax", limit=4, arrays="torch", device=device)
    rng = np.random.default_rng(0)
    table = rng.integers(0, 3, (6, 4))
    runs = []
    for is_busy in (False, True):
        envs.reset(seed=3)
        log = []
        for row in table:
            buffer = torch.tensor(row, device=torch_device)
            finish(torch_device)
            kept = busy_jax(jax_device) if is_busy else None
            log.append(envs.step(buffer))
            with unordered_stream(torch_device):
                buffer.fill_(2)
            del kept
        finish(torch_device)
        runs.append(to_numpy(log))
    assert_same(runs[1], runs[0])
    assert len({float(rewards.sum()) for _, rewards, *_ in runs[0]}) > 2, "actions show in rewards"


def test_tensors__are_ready_for_torch_while_jax_is_busy(
    device: str, torch_device: Any, jax_device: Any
) -> None:
    """Kernels of torch that are queued at once read what the step will have written."""
    envs = shared_batch("fast", "SameStep", limit=5, arrays="torch", device=device)
    actions = torch.zeros(envs.action_space.shape, device=torch_device)
    runs = []
    for is_busy in (False, True):
        envs.reset(seed=3)
        log = []
        for _ in range(6):
            kept = busy_jax(jax_device) if is_busy else None
            log.append([leaf.clone() for leaf in leaves(envs.step(actions))])
            del kept
        finish(torch_device)
        runs.append(to_numpy(log))
    assert_same(runs[1], runs[0])


@pytest.mark.parametrize("call", ["get_state", "reset", "set_state", "step", "step_some"])
def test_memory_that_torch_still_reads__is_not_written_by_the_next_call(
    call: str, device: str, torch_device: Any
) -> None:
    """Torch frees a tensor of JAX's when its last name goes, though a kernel is to read it."""
    options = {"arrays": "torch", "num_envs": 512, "device": device}
    envs = shared_batch("fast", "Disabled" if call == "step_some" else "NextStep", **options)
    actions = np.zeros(envs.action_space.shape, np.float32)
    envs.reset(seed=0)
    state = envs.get_state()
    calls = {
        "get_state": envs.get_state,
        "reset": lambda: envs.reset(seed=1),
        "set_state": lambda: envs.set_state(state),
        "step": lambda: envs.step(actions),
        "step_some": lambda: envs.step_some(actions, np.arange(512) < 9),
    }
    calls[call]()  # compiles
    for _ in range(5):
        obs, *_ = envs.step(actions)
        wanted = obs.cpu()
        finish(torch_device)
        busy_torch(torch_device)
        copy = obs.clone()  # waits in torch's stream
        del obs, _
        calls[call]()
        finish(torch_device)
        assert torch.equal(copy.cpu(), wanted)


@pytest.mark.parametrize("engine", ["brax", "fast", "envpool", "pendulum"])
def test_arrays__share_no_memory(engine: str, mode: str, arrays: str, device: str) -> None:
    envs = make_batch(engine, mode, limit=9, arrays=arrays, device=device)
    given = [to_kind(envs.action_space.sample(), arrays, envs.device) for _ in range(2)]
    calls = [envs.reset(seed=0), *map(envs.step, given)]
    found = list(leaves(calls)) if arrays == "torch" else unique(calls)
    pointers = [
        leaf.data_ptr() if arrays == "torch" else leaf.unsafe_buffer_pointer() for leaf in found
    ]
    assert len(set(pointers)) == len(pointers) > 10
