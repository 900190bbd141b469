"""Python in fresh processes, for what a process can do or have but once."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, NamedTuple


class Printed(NamedTuple):
    """What a process printed, and how it ended."""

    out: str
    log: str  # on stderr
    code: int = 0  # below 0 for a signal

    @property
    def lines(self) -> list[str]:
        """The lines on stdout."""
        return self.out.splitlines()


def run_python(
    *arguments: Any, cwd: Any = None, code: int | None = 0, seconds: float = 900, **environ: str
) -> Printed:
    """Return what a fresh Python prints, which can import all that tests can.

    Args:
        *arguments: Of its command line, such as the path of a script, or ``"-c"`` and code, which
            is run without warnings.
        cwd: The folder that it runs in; None for this process's.
        code: The only exit status that is no failure; None for any.
        seconds: Time after which it hangs. A machine with other work is slow.
        **environ: Variables beside those of this process.
    """
    options = ["-W", "ignore"] if arguments[0] == "-c" else []
    done = subprocess.run(
        [sys.executable, *options, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environ},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert code in (None, done.returncode), done.stderr[-3000:] or done.stdout[-3000:]
    assert code in (None, 0) or "Traceback" not in done.stderr
    return Printed(done.stdout, done.stderr, done.returncode)
