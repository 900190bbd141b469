"""Commands in a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios


def run_in_terminal(command: list[str], columns: int) -> tuple[str, int]:
    """Run a command in a terminal of some width; return what it writes, and its exit code."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=env)
    os.close(its)
    written = b""
    while piece := _read(ours):
        written += piece
    os.close(ours)
    return written.decode().replace("\r\n", "\n"), process.wait()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux says so that the other side is closed.
        return b""
