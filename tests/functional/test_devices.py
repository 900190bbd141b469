"""Several devices: four, which XLA makes of the CPU in a process of its own."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

pytest.importorskip("brax.envs")

from python_runs import run_python


@pytest.mark.slow
def test_four_devices__are_as_good_as_one() -> None:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    command = ("-m", "pytest", "-q", "-p", "no:xdist", "-rs", "four_devices.py")
    printed = run_python(*command, cwd=Path(__file__).parent, XLA_FLAGS=flags)
    assert int(re.search(r"(\d+) passed", printed.out)[1]) >= 17
