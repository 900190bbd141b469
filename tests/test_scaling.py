"""Several devices in one process, and one process for each device."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
RANK = re.compile(
    r"rank (\d) of 2, seeds from (\d+): mean return (\S+) to (\S+), sum of weights (\S+)\n"
)


def run_python(*arguments: Any, **environ: str) -> str:
    """Return what a fresh process prints."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environ}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_scaling_page__spreads_a_batch_over_two_devices(tmp_path: Path) -> None:
    pytest.importorskip("brax")
    text = (ROOT / "docs" / "how-to" / "scaling.md").read_text(encoding="utf-8")
    (block,) = [b for b in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "device_put" in b]
    script = tmp_path / "spread.py"
    report = "print([shard.data.shape for shard in rewards.addressable_shards])"
    script.write_text(f"{block}\n{report}", encoding="utf-8")
    printed = run_python(script, XLA_FLAGS="--xla_force_host_platform_device_count=2")
    assert printed == "[(512,), (512,)]\n"


def test_scaling_page__steps_batches_on_two_devices(tmp_path: Path) -> None:
    pytest.importorskip("brax")
    text = (ROOT / "docs" / "how-to" / "scaling.md").read_text(encoding="utf-8")
    (block,) = [b for b in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "batches" in b]
    script = tmp_path / "devices.py"
    report = """
for envs, (obs, *_) in zip(batches, steps):
    print(envs.np_random_seed[0], *(f"{d.platform}:{d.id}" for d in obs.devices()))
"""
    script.write_text(block + report, encoding="utf-8")
    printed = run_python(script, XLA_FLAGS="--xla_force_host_platform_device_count=2")
    assert printed.endswith("0 cpu:0\n256 cpu:1\n")


def test_ddp__says_how_to_run_it() -> None:
    pytest.importorskip("torch")
    environ = {key: value for key, value in os.environ.items() if key != "LOCAL_RANK"}
    command = [sys.executable, str(ROOT / "examples" / "ddp.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert "torchrun --nproc-per-node=2 examples/ddp.py" in done.stderr


@pytest.mark.slow
def test_ddp__takes_the_same_steps_on_different_episodes(tmp_path: Path) -> None:
    for library in ("brax", "matplotlib", "tqdm"):
        pytest.importorskip(library)
    torch = pytest.importorskip("torch")
    script = ROOT / "examples" / "ddp.py"
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node=2")
    sizes = ("--backend=spring", "--windows=8", "--num-envs=8", "--steps=8")
    printed = run_python(*torchrun, script, *sizes, f"--out={tmp_path}")
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
    table = np.genfromtxt(tmp_path / "progress.csv", delimiter=",", names=True)
    assert table["env_steps"].tolist() == [64 * window for window in range(1, 9)]
    assert table["mean_return"][[0, -1]] == pytest.approx([*map(float, returns)], abs=5e-4)
    assert (tmp_path / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    played = run_python(*torchrun, script, *sizes, f"--evaluate={tmp_path}/policy.pt")
    mean = re.findall(r"Brax/reacher-v0: mean return (\S+) over 8 episodes\n", played)
    assert len(mean) == 1, played
    assert -10 < float(mean[0]) < 0
