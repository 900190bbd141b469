"""What a command writes: results to standard output, all else to standard error.

Commands and the library say what goes on by the logger `gymbridge`, and `speaking` writes it:

- warnings and errors, those of other libraries included, as lines of the command;
- INFO, what begins now: on a terminal as one line that the next one replaces, elsewhere as lines;
- DEBUG, how far it is: in the place of that line, and elsewhere as a line after 10 quiet seconds.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gymbridge.errors import GymbridgeError

__all__ = ["LOG", "count", "cut", "fit", "note", "require_output", "show", "speaking"]

LOG = logging.getLogger("gymbridge")
"""By which a command says what it does."""

QUIET = 10.0
"""Seconds without a line after which a command says how far it is, outside a terminal."""


def require_output() -> None:
    """Raise GymbridgeError if there is no standard output."""
    if sys.stdout is None:
        raise GymbridgeError("Standard output is closed; `>/dev/null` throws results away.")


def show(result: Any) -> None:
    """Write a result to standard output at once: text as it is, anything else as JSON.

    Characters that the encoding of the output lacks are written as backslash escapes.

    Raises:
        GymbridgeError: Nothing can be written, such as to a full disk.
        SystemExit: With code 0, when the reader, such as `head`, has seen enough.
    """
    text = result if isinstance(result, str) else json.dumps(result, indent=2)
    encoding = sys.stdout.encoding or "utf-8"
    _VOICE.clear()
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
    _VOICE.clear()
    _write(f"{text}\n")


def count(number: int, noun: str) -> str:
    """Return a number and what it counts.

    Example:
        >>> count(1, "id"), count(1024, "id")
        ('1 id', '1,024 ids')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def cut(line: str, width: int) -> str:
    """Return a line that is no longer than a width."""
    return line if len(line) <= width else f"{line[: width - 3]}..."


def fit(text: str, indent: int) -> str:
    """Return a text for standard output; a terminal of 80 columns or more splits no word of it.

    What does not fit goes to lines of their own, which begin at column `indent`.
    """
    if not sys.stdout.isatty():
        return text
    wrapper = textwrap.TextWrapper(
        width=max(80, shutil.get_terminal_size().columns),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(wrapper.fill(line) for line in text.splitlines())


@contextmanager
def speaking() -> Iterator[_Voice]:
    """Write what is logged inside the block, after the `command` of what is yielded."""
    level, show_warning = LOG.level, warnings.showwarning
    _VOICE.start()
    logging.root.addHandler(_VOICE)
    LOG.setLevel(logging.DEBUG)
    warnings.showwarning = _log_warning
    try:
        yield _VOICE
    finally:
        warnings.showwarning = show_warning
        LOG.setLevel(level)
        logging.root.removeHandler(_VOICE)
        _VOICE.clear()


def _log_warning(message: Warning | str, *_: Any) -> None:
    LOG.warning("%s", re.sub(r"\033\[\d+m(WARN: )?", "", str(message)))


class _Voice(logging.Handler):
    """Writes log records to standard error."""

    def start(self) -> None:
        self.command, self._is_shown = "gymbridge", False
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._pause = 0.25 if self._is_terminal else QUIET
        self._next = 0.0 if self._is_terminal else time.monotonic() + self._pause

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            note(f"{self.command}: {record.levelname.lower()}: {record.getMessage()}")
        elif record.name != LOG.name:
            return
        elif record.levelno >= logging.INFO or time.monotonic() >= self._next:
            self._next = time.monotonic() + self._pause
            self._tell(record.getMessage())

    def _tell(self, text: str) -> None:
        if self._is_terminal:
            _write(f"\r{cut(text, shutil.get_terminal_size().columns - 1)}\033[K")
            self._is_shown = True
        else:
            note(f"{self.command}: {text}")

    def clear(self) -> None:
        """Remove the line of the terminal, so that other lines can be written."""
        if self._is_shown:
            self._is_shown, self._next = False, 0.0
            _write("\r\033[K")


def _write(text: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError):
            print(text, file=sys.stderr, end="", flush=True)


_VOICE = _Voice()
_VOICE.start()
