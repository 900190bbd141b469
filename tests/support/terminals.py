"""Commands in a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios


def run_in_terminal(
    command: list[str], columns: int, interrupt_after: bytes | None = None
) -> tuple[str, int]:
    """Run a command in a terminal of some width; return what it writes, and its exit code.

    Ctrl-C is pressed once, when it has written `interrupt_after`.
    """
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    process = subprocess.Popen(
        command, stdin=its, stdout=its, stderr=its, env=env, start_new_session=True
    )
    os.close(its)
    written = b""
    while piece := _read(ours):
        written += piece
        if interrupt_after is not None and interrupt_after in written:
            interrupt_after = os.killpg(process.pid, signal.SIGINT)
    os.close(ours)
    return written.decode().replace("\r\n", "\n"), process.wait()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux says so that the other side is closed.
        return b""
