"""EnvPool, which runs on the CPU, with tensors and jax arrays on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.batches import leaves, make_batch, to_kind
from tests.support.host_syncs import count_copies, trace
from tests.support.player import play
from tests.support.trees import assert_same, spoil

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("task", ["envpool", "pendulum"])
def test_run__is_that_of_numpy_arrays(task: str, arrays: str, mode: str, device: str) -> None:
    """To the bit; what the user writes into at once does not reach the next transfer."""
    options = {"limit": 7, "arrays": arrays}
    wanted = play(make_batch(task, mode, **options), 20)
    places = set()

    def note(call: Any) -> None:
        for leaf in leaves(call[0]):
            places.update(leaf.devices() if arrays == "jax" else {leaf.device})
        spoil(arrays, waits=False)(call)

    envs = make_batch(task, mode, device=device, **options)
    assert_same(play(envs, 20, touch=note), wanted)
    assert places == {envs.device}
    assert np.any([step[2] | step[3] for step in wanted if len(step) == 5])


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_step__takes_one_transfer_each_way(mode: str, device: str, is_cuda: bool) -> None:
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
