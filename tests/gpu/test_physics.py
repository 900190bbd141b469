"""Compiled physics of each engine on the GPU: values and float32 gradients beside the CPU's."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.batches import make_batch, to_numpy
from tests.support.player import play
from tests.support.trees import assert_same, spoil

pytestmark = pytest.mark.gpu

OPTIONS: dict[str, dict[str, Any]] = {
    "inverted_pendulum": {"backend": "spring", "differentiable": True},
    "playground": {},
}


@cache
def batch_of(engine: str, device: str) -> Any:
    """Return a batch of short episodes, one per engine and device, since each one compiles."""
    if engine == "playground":
        pytest.importorskip("mujoco_playground")
    options = {"limit": 6, "arrays": "torch", "num_envs": 3, **OPTIONS[engine]}
    return make_batch(engine, "SameStep", device=device, **options)


@pytest.mark.parametrize("engine", OPTIONS)
def test_episodes__are_those_of_the_cpu_and_the_same_again(engine: str, device: str) -> None:
    """What a user writes into tensors, right after each call, changes nothing."""
    envs = batch_of(engine, device)
    wanted, found = play(batch_of(engine, "cpu"), 14), play(envs, 14)
    assert_same(found, wanted, digits=1e-3)
    ends = np.stack([step[2] | step[3] for step in wanted if len(step) == 5])
    assert ends.any()
    assert not ends.all()
    assert_same(play(envs, 14, touch=spoil("torch")), found, digits=1e-6)
    assert_same(to_numpy(envs.reset(seed=[3, 4, 5])), found[0])


def test_gradient__is_that_of_the_cpu(device: str) -> None:
    found = []
    for place in ("cpu", device):
        envs = batch_of("inverted_pendulum", place)
        envs.reset(seed=3)
        actions = torch.full((3, 3, 1), 0.2, device=envs.device, requires_grad=True)
        loss = sum((envs.step(action)[0] ** 2).sum() for action in actions)
        loss.backward()
        found.append(actions.grad.cpu())
    largest = found[0].abs().max().item()
    assert largest > 1e-3
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-3 * largest)
