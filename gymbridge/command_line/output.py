"""What a command writes: results to standard output, all else to standard error."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gymbridge.errors import GymbridgeError

__all__ = ["Progress", "note", "require_output", "show"]


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
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as error:
        # Python writes what is left in the buffer when it ends, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise SystemExit(0) from error
        raise GymbridgeError(f"Standard output cannot be written: {error.strerror}.") from error


def note(text: str, end: str = "\n") -> None:
    """Write to standard error, if there is one."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(text, file=sys.stderr, end=end, flush=True)


class Progress:
    """One line on the terminal of standard error that says what goes on; elsewhere, nothing."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr is not None and sys.stderr.isatty()
        self._next = 0.0

    def show(self, text: str) -> None:
        """Write the line anew, at most four times a second."""
        if self._is_shown and time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.25
            note(f"\r{text}\033[K", end="")

    @contextmanager
    def during(self, text: str) -> Iterator[None]:
        """Show a text while the block runs."""
        self.show(text)
        try:
            yield
        finally:
            self.clear()

    def clear(self) -> None:
        """Remove the line, so that other lines can be written."""
        if self._is_shown:
            self._next = 0.0
            note("\r\033[K", end="")
