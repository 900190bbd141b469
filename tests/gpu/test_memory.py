"""Torch and JAX on one card: who takes how much of its memory."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import torch

from tests.support.batches import make_batch
from tests.support.player import play
from tests.support.python_runs import run_python
from tests.support.trees import assert_same

pytestmark = pytest.mark.gpu

SMALL = 1 << 26  # of a dry run, in bytes

PROGRAM = """
import json, sys
import torch
from gymbridge import BraxVectorEnv
device, share = sys.argv[1], float(sys.argv[2])
envs = BraxVectorEnv("fast", 4096, arrays="torch", device=device)
envs.reset(seed=0)
obs = envs.step(torch.zeros(4096, 1, device=device))[0]
free, total = torch.cuda.mem_get_info() if device.startswith("cuda") else (1, 1)
size = int(share * total) if device.startswith("cuda") else 1 << 26
block = torch.ones(size, dtype=torch.uint8, device=device)
obs = envs.step(torch.zeros(4096, 1, device=device))[0]
found = [block[-1].item(), obs.isfinite().all().item()]
print(json.dumps({"taken": 1 - free / total, "found": found}))
"""


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
        torch.cuda.empty_cache()  # for the processes of the next test


@pytest.mark.parametrize(
    ("variable", "value", "lowest", "highest", "torch_share"),
    [
        ("XLA_PYTHON_CLIENT_PREALLOCATE", "false", 0, 0.15, 0.6),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.25", 0.2, 0.4, 0.5),
    ],
)
def test_variables__leave_torch_the_rest(
    variable: str,
    value: str,
    lowest: float,
    highest: float,
    torch_share: float,
    device: str,
    is_cuda: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """JAX takes a share of the card in these limits, and torch gets as much of the rest."""
    for name in [name for name in os.environ if name.startswith("XLA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv(variable, value)
    found = json.loads(run_python("-c", PROGRAM, device, torch_share, seconds=200).lines[-1])
    assert found["found"] == [1, True]
    assert not is_cuda or lowest <= found["taken"] <= highest, found
