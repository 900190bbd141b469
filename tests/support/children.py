"""Child processes with a time limit, so that a hang is a failure and no stuck suite."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from typing import Any

__all__ = ["Child"]


class Child:
    """A process that calls functions of importable modules, one after the other.

    It imports its engines once, for all tests of a run. One that hangs or dies fails the test and
    is replaced.
    """

    def __init__(self) -> None:
        self._process: Any = None
        self._pipe: Any = None

    def call(self, function: Callable[..., Any], *args: Any, seconds: float = 120) -> Any:
        """Return what the function does there; what it raises is an error with its traceback."""
        if self._process is None:
            self._start()
        self._pipe.send((function, args))
        try:
            assert self._pipe.poll(seconds), f"{function.__name__}{args} hangs"
            is_error, result = self._pipe.recv()
        except (AssertionError, EOFError) as error:
            self.stop()
            raise AssertionError(f"{function.__name__}{args}: {error!r}") from error
        assert not is_error, f"in the child process:\n{result}"
        return result

    def stop(self) -> None:
        """Kill the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()


def _serve(pipe: Any) -> None:
    while True:
        try:
            function, args = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((False, function(*args)))
        except BaseException:
            pipe.send((True, traceback.format_exc()))
