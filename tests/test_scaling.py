"""Several devices in one process, and one process for each device."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from gymbridge.command_line import main
from tests.support.example_runs import EXAMPLES, read_table
from tests.support.python_runs import run_python

RANK = re.compile(
    r"rank (\d) of 2, seeds from (\d+): mean return (\S+) to (\S+), sum of weights (\S+)\n"
)


def test_scaling_page__spreads_a_batch_and_steps_batches_on_two_devices(tmp_path: Path) -> None:
    page = EXAMPLES.parent / "docs" / "how-to" / "scaling.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (spread,) = [block for block in blocks if "device_put" in block]
    (devices,) = [block for block in blocks if "batches" in block]
    report = """
print([shard.data.shape for shard in rewards.addressable_shards])
"""
    other = """
for envs, (obs, *_) in zip(batches, steps):
    print(envs.np_random_seed[0], *(f"{d.platform}:{d.id}" for d in obs.devices()))
"""
    script = tmp_path / "page.py"
    script.write_text("".join((spread, report, devices, other)), encoding="utf-8")
    printed = run_python(script)
    assert printed.lines == ["[(512,), (512,)]", "0 cpu:0", "256 cpu:1"]


@pytest.mark.slow
def test_ddp__takes_the_same_steps_on_different_episodes(tmp_path: Path, capsys: Any) -> None:
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node=2", EXAMPLES / "ddp.py")
    sizes = ("--backend=spring", "--windows=4", "--num-envs=8", "--steps=8")
    printed = run_python(*torchrun, *sizes, f"--out={tmp_path}").out
    lines = sorted(RANK.findall(printed))
    assert len(lines) == 2, printed
    (_, first, *returns, weights), (_, second, *same, others) = lines
    assert (first, second) == ("0", "4")
    assert returns == same
    assert weights == others
    torch.manual_seed(0)
    layers = torch.nn.Linear(11, 64), torch.nn.Linear(64, 2)  # reacher's policy in the script
    begun = sum(weight.detach().double().sum() for layer in layers for weight in layer.parameters())
    assert abs(float(weights) - float(begun)) > 1e-3, "nothing was learned"
    table = read_table(tmp_path / "progress.csv")
    assert table["env_steps"].tolist() == [64 * window for window in range(1, 5)]
    assert table["mean_return"][[0, -1]] == pytest.approx([*map(float, returns)], abs=5e-4)
    flags = ("--kwarg=backend=spring", "--steps=8", f"--policy={tmp_path}/policy.pt")
    assert main(["rollout", "Brax/reacher-v0", "--json", *flags]) == 0
    assert -10 < json.loads(capsys.readouterr().out)["mean_return"] < 0
