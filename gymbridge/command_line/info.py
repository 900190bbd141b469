"""``gymbridge info``: versions, devices and OpenGL, or what is known about an id.

JAX, torch and OpenGL are tried in processes of their own, all at the same time. So if one hangs or
crashes, the result says so, and GPU memory that JAX takes is freed.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tabulate import tabulate

import gymbridge
from gymbridge.command_line.catalogue import did_you_mean, read_catalogue
from gymbridge.command_line.options import add_json
from gymbridge.command_line.output import show
from gymbridge.core.extras import EXTRAS, REQUIRED, find_version, install_command
from gymbridge.errors import UnknownTaskError

__all__ = ["Probe", "add_to", "collect", "describe", "run", "run_probe", "run_probes"]

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


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "info",
        help="show versions, devices and OpenGL, and what is missing; or what is known about an id",
        description="Show the versions of gymbridge and of the libraries that it works with, the "
        "devices of JAX and torch, and the OpenGL library that draws physics. For what is missing, "
        "show the command that installs it. With an id, show its family, spaces, time limit and "
        "extra instead. The exit code is 0 even if something is missing.",
    )
    parser.set_defaults(run=run)
    text = "id of gymbridge, such as Brax/ant-v0 (default: show this machine)"
    parser.add_argument("id", nargs="?", metavar="ID", help=text)
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Print what is installed and what is missing, or what is known about an id."""
    found = collect() if given.id is None else describe(given.id)
    make_rows = _rows_of_machine if given.id is None else _rows_of_id
    show(found if given.json else _text(make_rows(found), found["missing"]))
    return 0


def collect() -> dict[str, Any]:
    """Return what is installed and what is missing, as a dict that JSON can hold."""
    versions = {name: find_version(name) for name in REQUIRED} | _find_versions(EXTRAS)
    return {
        "gymbridge": gymbridge.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": versions,
        "devices": {name: probe._asdict() for name, probe in run_probes(versions).items()},
        "missing": _find_missing(EXTRAS, versions),
    }


def describe(env_id: str) -> dict[str, Any]:
    """Return what is known about an id, as a dict that JSON can hold; no engine is imported."""
    name = env_id.rpartition(":")[2]
    entry = next((entry for entry in read_catalogue() if entry.id == name), None)
    if entry is None:
        raise UnknownTaskError(f"gymbridge has no id {env_id!r}.{did_you_mean(name)}")
    is_robot = entry.family in ("locomotion", "manipulation")
    extra = "robots" if is_robot else name.partition("/")[0].lower()
    versions = _find_versions([extra])
    missing = _find_missing([extra], versions)
    return {**entry._asdict(), "extra": extra, "versions": versions, "missing": missing}


def _find_versions(extras: Iterable[str]) -> dict[str, str | None]:
    return {name: find_version(name) for extra in extras for name in EXTRAS[extra]}


def _find_missing(extras: Iterable[str], versions: Mapping[str, str | None]) -> dict[str, str]:
    """Return the commands that install the extras which lack a distribution."""
    return {
        extra: install_command(extra)
        for extra in extras
        if any(versions[name] is None for name in EXTRAS[extra])
    }


def _rows_of_machine(found: dict[str, Any]) -> dict[str, str | None]:
    here = {name: found[name] for name in ("gymbridge", "python", "platform")}
    devices = {
        name: probe["error"] or ", ".join(probe["found"]) or "none"
        for name, probe in found["devices"].items()
    }
    return here | found["versions"] | devices


def _rows_of_id(found: dict[str, Any]) -> dict[str, str | None]:
    limit = found["max_episode_steps"]
    return {
        "id": found["id"],
        "family": found["family"],
        "observation space": found["observation_space"],
        "action space": found["action_space"],
        "limit": "none" if limit is None else f"{limit} steps",
        "extra": found["extra"],
        **found["versions"],
    }


def _text(rows: Mapping[str, str | None], missing: Mapping[str, str]) -> str:
    table = tabulate(rows.items(), tablefmt="plain", disable_numparse=True, missingval="-")
    if not missing:
        return table
    commands = [(extra, f"install by {command}") for extra, command in missing.items()]
    below = tabulate(commands, tablefmt="plain")
    return f"{table}\n\nExtras that are not installed:\n{below}"


class Probe(NamedTuple):
    """What a probe found, or why it found nothing."""

    found: list[str]
    error: str | None = None


def run_probes(versions: Mapping[str, str | None]) -> dict[str, Probe]:
    """Return the devices of JAX and torch, if these have a version, and the OpenGL library."""
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
