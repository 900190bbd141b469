"""``gymbridge info``: versions, devices and OpenGL.

Each line is printed as soon as it is known, so what hangs or crashes comes after the last one.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterator
from typing import Any

import gymbridge
from gymbridge.command_line.options import add_json
from gymbridge.command_line.output import show
from gymbridge.command_line.timing import name_processor
from gymbridge.core.extras import REQUIRED, find_version, install_command, read_extras
from gymbridge.core.opengl import make_context

__all__ = ["add_to", "collect", "run"]

_BELOW = ("jax", "jaxlib", "mujoco", "mujoco-mjx", "warp-lang")
"""Distributions below the engines, on which results and speed depend."""


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
    found: dict[str, Any] = {"missing": {}}
    for part, name, value in collect():
        (found.setdefault(part, {}) if part else found)[name] = value
        if not given.json:
            show(f"{name:<27}  {'-' if value is None else value}")
    if given.json:
        show(found)
    return 0


def collect() -> Iterator[tuple[str, str, Any]]:
    """Yield what is installed and what is missing: part of the result or "", name, and value."""
    yield "", "gymbridge", gymbridge.__version__
    yield "", "python", platform.python_version()
    yield "", "platform", platform.platform()
    yield "", "processor", f"{name_processor()}, {os.cpu_count()} cores"
    names = (*REQUIRED, *_BELOW, *sum(read_extras().values(), ()))
    versions = {name: find_version(name) for name in dict.fromkeys(names)}
    yield from (("versions", *version) for version in versions.items())
    for extra, needed in read_extras().items():
        if any(versions[name] is None for name in needed):
            yield "missing", extra, f"not installed: {install_command(extra)}"
    if versions["jax"]:
        yield "devices", "JAX devices", _try(_name_jax_devices)
    if versions["torch"]:
        yield "devices", "torch devices", _try(_name_torch_devices)
    yield "devices", "OpenGL", _try(_name_opengl)


def _try(find: Callable[[], str]) -> str:
    """Return what a function finds out, or its error."""
    try:
        return find()
    except Exception as error:  # A driver may raise anything.
        return f"{type(error).__name__}: {error}"


def _name_jax_devices() -> str:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    return ", ".join(f"{device} ({device.device_kind})" for device in jax.devices())


def _name_torch_devices() -> str:
    import torch

    gpus = range(torch.cuda.device_count())
    return ", ".join(["cpu", *(f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in gpus)])


def _name_opengl() -> str:
    return type(make_context()).__module__.removeprefix("mujoco.")
