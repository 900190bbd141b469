"""What a command writes: results to standard output, all else to standard error.

Commands and the library say what goes on by the logger `gymbridge`, and `speaking` writes it as
lines of the command: warnings and errors, those of other libraries included; INFO, what begins now;
and DEBUG, how far it is, after 10 quiet seconds.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gymbridge.errors import GymbridgeError

__all__ = ["LOG", "count", "note", "show", "speaking"]

LOG = logging.getLogger("gymbridge")
"""By which a command says what it does."""

QUIET = 10.0
"""Seconds without a line after which a command says how far it is."""


def show(result: Any) -> None:
    """Write a result to standard output at once: text as it is, anything else as JSON.

    Characters that the encoding of the output lacks are written as backslash escapes.

    Raises:
        GymbridgeError: Nothing can be written, such as to a full disk.
        SystemExit: With code 0, when the reader, such as `head`, has seen enough.
    """
    if sys.stdout is None:
        raise GymbridgeError("Standard output is closed; `>/dev/null` throws results away.")
    text = result if isinstance(result, str) else json.dumps(result, indent=2)
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as error:
        # Python writes what is left in the buffer when it ends, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise SystemExit(0) from error
        raise GymbridgeError(f"Standard output cannot be written: {error.strerror}.") from error


def note(text: str) -> None:
    """Write a line to standard error, if there is one."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(text, file=sys.stderr, flush=True)


def count(number: int, noun: str) -> str:
    """Return a number and what it counts, such as "1 id" or "1,024 ids"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


@contextmanager
def speaking(command: str) -> Iterator[None]:
    """Write what is logged inside the block as lines of a command."""
    level, show_warning, voice = LOG.level, warnings.showwarning, _Voice(command)
    logging.root.addHandler(voice)
    LOG.setLevel(logging.DEBUG)
    warnings.showwarning = _log_warning
    try:
        yield
    finally:
        warnings.showwarning = show_warning
        LOG.setLevel(level)
        logging.root.removeHandler(voice)


def _log_warning(message: Warning | str, *_: Any) -> None:
    LOG.warning("%s", re.sub(r"\033\[\d+m(WARN: )?", "", str(message)))


class _Voice(logging.Handler):
    """Writes log records to standard error."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self._command, self._spoke = command, time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        now, text = time.monotonic(), record.getMessage()
        if record.levelno >= logging.WARNING:
            note(f"{self._command}: {record.levelname.lower()}: {text}")
        elif record.name == LOG.name and (
            record.levelno >= logging.INFO or now >= self._spoke + QUIET
        ):
            self._spoke = now
            note(f"{self._command}: {text}")
