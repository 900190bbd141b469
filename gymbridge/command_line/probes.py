"""What JAX, torch and OpenGL find on this machine.

Each is tried in a process of its own, all at the same time. So if one hangs or crashes, the result
says so, and GPU memory that JAX takes is freed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

__all__ = ["Probe", "run_probe", "run_probes"]

_SECONDS = 60
"""Seconds after which a probe has failed."""

_JAX = "import jax; print(*(f'{d} ({d.device_kind})' for d in jax.devices()), sep='\\n')"

_TORCH = """
import torch
print("cpu", *(
    f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())
), sep="\\n")
"""

_OPENGL = """
from gymbridge.core.opengl import make_context
from gymbridge.errors import GymbridgeError
try:
    context = make_context()
except GymbridgeError as error:
    raise SystemExit(str(error))
print(type(context).__module__.removeprefix("mujoco."))
"""


class Probe(NamedTuple):
    """What a probe found, or why it found nothing."""

    found: list[str]
    error: str | None = None


def run_probes(versions: Mapping[str, str | None]) -> dict[str, Probe]:
    """Return the devices of JAX and torch, if these are installed, and the OpenGL library.

    Args:
        versions: Versions of distributions by name, None for those that are not installed.
    """
    codes = {"JAX devices": ("jax", _JAX), "torch devices": ("torch", _TORCH)}
    wanted = {name: code for name, (package, code) in codes.items() if versions.get(package)}
    wanted["OpenGL"] = _OPENGL
    with ThreadPoolExecutor(len(wanted)) as threads:
        return dict(zip(wanted, threads.map(run_probe, wanted.values()), strict=True))


def run_probe(code: str, seconds: float = _SECONDS) -> Probe:
    """Return the lines that a program prints, or the last line of its error."""
    settings = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            env=os.environ | settings,
        )
    except subprocess.TimeoutExpired:
        return Probe([], f"no answer in {seconds:g} s")
    if done.returncode == 0:
        return Probe(done.stdout.splitlines())
    lines = done.stderr.strip().splitlines()
    return Probe([], lines[-1] if lines else f"ended with code {done.returncode}")
