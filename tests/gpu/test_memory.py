"""Torch and JAX on one card: a batch runs beside what torch takes of its memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.support.batches import make_batch
from tests.support.player import play
from tests.support.trees import assert_same

pytestmark = pytest.mark.gpu

SMALL = 1 << 26  # of a dry run, in bytes


def test_batch__runs_beside_a_large_tensor(device: str, is_cuda: bool, torch_device: Any) -> None:
    envs = make_batch("fast", "SameStep", arrays="torch", num_envs=4096, limit=5, device=device)
    wanted = play(envs, 6)
    size = int(0.6 * torch.cuda.mem_get_info(torch_device)[0]) if is_cuda else SMALL
    block = torch.full((size,), 7, dtype=torch.uint8, device=torch_device)
    assert_same(play(envs, 6), wanted)
    twin = make_batch("fast", "SameStep", arrays="torch", num_envs=4096, limit=5, device=device)
    assert_same(play(twin, 6), wanted)
    assert block[:: size // 1000].unique().tolist() == [7]
    del block
    if is_cuda:
        torch.cuda.empty_cache()
