"""What runs on the CPU and runs with `-m gpu` set, and why the latter may be impossible.

Importing this module imports neither jax nor torch: variables are set before.
"""

from __future__ import annotations

import os
import re
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "gpu"
"""Where all tests with the marker `gpu` are."""

_XLA_FLAGS = "--xla_cpu_parallel_codegen_split_count=1"
if find_spec("jaxlib") and [int(part) for part in version("jaxlib").split(".")[:2]] < [0, 11]:
    # Later versions do not know the flag, and XLA ends a process for an unknown one.
    _XLA_FLAGS += " --xla_cpu_use_fusion_emitters=false"

_CPU_VARIABLES = {
    "JAX_PLATFORMS": "cpu",
    # For batches that are spread; the others are on the first.
    "JAX_NUM_CPU_DEVICES": "2",
    # Most of a run is XLA's compilation, and what is compiled runs shortly. A part of the slow
    # leg of `.ci/run` compiles as users do. XLA's emitters of fused operations, and compiling
    # a program in several parts at once while tests run on every core, would double that time.
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": _XLA_FLAGS,
    # Torch's threads spin while they wait: two test processes would take each other's cores.
    "OMP_NUM_THREADS": "1",
}

_GPU_VARIABLES = {
    # Torch shares the card, so JAX must not take three quarters of it at its first operation.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    # In TF32, XLA's default on recent cards, products differ from the CPU's in the fourth digit.
    "JAX_DEFAULT_MATMUL_PRECISION": "highest",
}


def is_gpu_run(markers: str, device: str) -> bool:
    """Return whether a run selects the tests of the GPU, to be run on one.

    Args:
        markers: What pytest was given with `-m`.
        device: What pytest was given with `--gpu-device`.
    """
    return re.search(r"(?<!not )\bgpu\b", markers) is not None and device != "cpu"


def prepare_cpu_run() -> list[str]:
    """Set the variables of a run on the CPU, unless they are set, and return which it set."""
    # Compiled physics is kept between runs.
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.expanduser("~/.cache/gymbridge/jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.02")
    missing = [name for name in _CPU_VARIABLES if name not in os.environ]
    os.environ.update({name: _CPU_VARIABLES[name] for name in missing})
    return missing


def prepare_gpu_run(set_for_cpu: list[str]) -> None:
    """Set the variables of a run on a GPU, unless they are set.

    Without `JAX_PLATFORMS`, JAX has the CPU beside the GPU, and the GPU is its default device.

    Args:
        set_for_cpu: What `prepare_cpu_run` returned.
    """
    for name in set_for_cpu:
        os.environ.pop(name, None)
    for name, value in _GPU_VARIABLES.items():
        os.environ.setdefault(name, value)


def keep_first_cases(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect all but the first case of each test."""
    first: dict[str, pytest.Item] = {}
    for item in items:
        first.setdefault(item.nodeid.partition("[")[0], item)
    config.hook.pytest_deselected(items=[item for item in items if item not in first.values()])
    items[:] = first.values()


def find_obstacle(device: str) -> str | None:
    """Return why tests cannot run on a device, with what to do; None if they can.

    Args:
        device: As gymbridge takes it, such as "cuda" or "cuda:1".
    """
    import jax
    import torch

    kind, _, index = device.partition(":")
    found = []
    try:
        jax.devices(kind)[int(index or 0)]
    except (RuntimeError, IndexError):
        platforms = os.environ.get("JAX_PLATFORMS", "unset")
        found.append(f"JAX sees no {device!r}, only {jax.devices()} (JAX_PLATFORMS is {platforms})")
    if kind == "cuda" and not torch.cuda.is_available():
        found.append(f"torch.cuda.is_available() is False (torch {torch.__version__})")
    elif kind == "cuda" and int(index or 0) >= torch.cuda.device_count():
        found.append(f"torch sees {torch.cuda.device_count()} CUDA devices")
    try:
        jax.devices("cpu")
    except RuntimeError:
        found.append("JAX has no CPU to compare with; leave JAX_PLATFORMS unset or add 'cpu'")
    if not found:
        return None
    return f"{'; '.join(found)}; rehearse on the CPU: pytest -m gpu --gpu-device cpu"
