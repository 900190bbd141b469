"""A script in a process of its own, for engines that crash, hang or leave children behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

__all__ = ["run_alone"]

HERE = Path(__file__).parent
SECONDS = 240


def run_alone(script: str, *args: str, folder: Path) -> str:
    """Return the last line that a script beside this file prints.

    Args:
        script: Its name.
        *args: Its arguments.
        folder: An empty folder to run in.
    """
    log = folder / "log.txt"
    # A file, not a pipe: children that a crash leaves behind would hold a pipe open.
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, str(HERE / script), *args],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_search_path())},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        code = process.wait(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        code = -signal.SIGKILL
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    text = log.read_text(errors="replace")
    assert code == 0, text
    return text.splitlines()[-1]


def _search_path() -> list[str]:
    """Return where modules of tests are, and what the caller's environment names."""
    return [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
