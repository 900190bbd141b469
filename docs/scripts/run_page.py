"""Run a tutorial as its reader does: each block of Python and each command, in one folder.

`docs/conf.py` runs one while it builds the page, so that the build fails where the page does.
"""

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator

PART = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n\n```text\n(?P<output>.*?)^```$)?"
    r"|^    gymbridge (?P<command>[^\n]*)$",
    re.DOTALL | re.MULTILINE,
)
"""A block of Python, before what it prints, or a command."""


def find_faults(page: str) -> Iterator[str]:
    """Yield what fails or prints something else than the page says, one line each."""
    with tempfile.TemporaryDirectory() as folder:
        for part in PART.finditer(page):
            arguments = ["-c", part["code"]]
            if part["command"]:
                arguments = ["-m", "gymbridge", *shlex.split(part["command"])]
            done = subprocess.run(
                [sys.executable, *arguments],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=900,
            )
            line = page.count("\n", 0, part.start()) + 1
            if done.returncode:
                yield f"line {line} failed: {done.stderr.rstrip().rpartition(chr(10))[2]}"
            elif part["output"] and part["output"].split() != done.stdout.split():
                yield f"line {line} printed {done.stdout!r}"
