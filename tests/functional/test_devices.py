"""Several devices: four, which XLA makes of the CPU in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("brax.envs")

FOLDER = Path(__file__).parent


def test_four_devices__are_as_good_as_one() -> None:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-rs", "four_devices.py"]
    environ = {**os.environ, "XLA_FLAGS": flags}
    done = subprocess.run(
        command, cwd=FOLDER, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= 20
