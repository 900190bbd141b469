"""``gymbridge info``: versions, devices and OpenGL, and how to install what is missing."""

from __future__ import annotations

import argparse
import json
import platform
from typing import Any

from tabulate import tabulate

import gymbridge
from gymbridge.command_line.options import add_json
from gymbridge.command_line.probes import Probe, run_probes
from gymbridge.core.extras import EXTRAS, REQUIRED, find_version, install_command

__all__ = ["add_to", "collect", "run"]


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
    """Print what is installed and what is missing."""
    found = collect()
    print(json.dumps(found, indent=2) if given.json else _text(found))
    return 0


def collect() -> dict[str, Any]:
    """Return what is installed and what is missing, as a dict that JSON can hold."""
    names = [*REQUIRED, *dict.fromkeys(name for names in EXTRAS.values() for name in names)]
    versions = {name: find_version(name) for name in names}
    return {
        "gymbridge": gymbridge.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": versions,
        "devices": {name: probe._asdict() for name, probe in run_probes(versions).items()},
        "missing": {
            extra: install_command(extra)
            for extra, needed in EXTRAS.items()
            if any(versions[name] is None for name in needed)
        },
    }


def _text(found: dict[str, Any]) -> str:
    here = {name: found[name] for name in ("gymbridge", "python", "platform")}
    versions = {name: number or "-" for name, number in found["versions"].items()}
    devices = {name: _line(Probe(**probe)) for name, probe in found["devices"].items()}
    lines = [tabulate((here | versions | devices).items(), tablefmt="plain", disable_numparse=True)]
    if found["missing"]:
        missing = [(extra, f"install by {command}") for extra, command in found["missing"].items()]
        lines += ["", "Extras that are not installed:", tabulate(missing, tablefmt="plain")]
    return "\n".join(lines)


def _line(probe: Probe) -> str:
    return probe.error or ", ".join(probe.found) or "none"
