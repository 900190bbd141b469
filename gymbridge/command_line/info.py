"""``gymbridge info``: versions, devices and OpenGL.

JAX, torch and OpenGL are tried in processes of their own, all at the same time. So if one hangs or
crashes, the result says so, and GPU memory that JAX takes is freed.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import gymbridge
from gymbridge.command_line.options import add_json
from gymbridge.command_line.output import LOG, show
from gymbridge.core.extras import EXTRAS, REQUIRED, find_version, install_command

__all__ = ["add_to", "collect", "run", "run_probe", "run_probes"]

_BELOW = ("jax", "jaxlib", "mujoco", "mujoco-mjx", "warp-lang")
"""Distributions below the engines, on which results and speed depend."""

Row = tuple[str, str, Any]
"""Part of the result or "", name, and value."""

_SECONDS = 60
"""Seconds after which a probe has failed."""

_JAX = """
import jax
print(", ".join(f"{d} ({d.device_kind})" for d in jax.devices()))
"""

_TORCH = """
import torch
gpus = range(torch.cuda.device_count())
print(", ".join(["cpu", *(f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in gpus)]))
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


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "info",
        help="show versions, devices and OpenGL, and what is missing",
        description="Show the versions of gymbridge and of the libraries that it works with, the "
        "devices of JAX and torch, and the OpenGL library that draws physics. For what is missing, "
        "show the command that installs it. The exit code is 0 even if something is missing.",
    )
    parser.set_defaults(run=run)
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Print what is installed and what is missing, as it is found."""
    found: dict[str, Any] = {}
    for part, name, value in collect():
        (found.setdefault(part, {}) if part else found)[name] = value
        if given.json:
            continue
        if part == "missing" and len(found[part]) == 1:
            show("\nExtras that are not installed:")
        show(_line(part, name, value))
    if given.json:
        show({**found, "missing": found.get("missing", {})})
    return 0


def collect() -> Iterator[Row]:
    """Yield what is installed and what is missing."""
    yield "", "gymbridge", gymbridge.__version__
    yield "", "python", platform.python_version()
    yield "", "platform", platform.platform()
    names = (*REQUIRED, *_BELOW, *chain.from_iterable(EXTRAS.values()))
    versions = {name: find_version(name) for name in dict.fromkeys(names)}
    yield from (("versions", *version) for version in versions.items())
    LOG.debug("Trying JAX, torch and OpenGL")
    yield from (("devices", *probe) for probe in run_probes(versions))
    for extra, needed in EXTRAS.items():
        if any(versions[name] is None for name in needed):
            yield "missing", extra, install_command(extra)


def _line(part: str, name: str, value: Any) -> str:
    if part == "missing":
        return f"{name:<10}  install by {value}"
    return f"{name:<27}  {'-' if value is None else value}"


def run_probes(versions: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """Yield the devices of JAX and torch, if these have a version, and the OpenGL library."""
    codes = {"JAX devices": ("jax", _JAX), "torch devices": ("torch", _TORCH)}
    wanted = {name: code for name, (package, code) in codes.items() if versions.get(package)}
    wanted["OpenGL"] = _OPENGL
    with ThreadPoolExecutor(len(wanted)) as threads:
        yield from zip(wanted, threads.map(run_probe, wanted.values()), strict=True)


def run_probe(code: str, seconds: float = _SECONDS) -> str:
    """Return the line that a program prints, or the last line of its error."""
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
        return f"no answer in {seconds:g} s"
    if done.returncode == 0:
        return done.stdout.strip()
    *_, last = ["", *done.stderr.strip().splitlines()]
    return last or f"ended with code {done.returncode}"
