"""Ctrl-C at every place of gymbridge where Python looks for signals.

CPython runs signal handlers as a function begins, as a loop jumps back and after a call has
returned. Between those, such as between the two halves of ``a, b = c, d``, it does not. What a
handler raises comes from the call; here it comes from the instruction after it, so a place where
that is out of the reach of the call's ``except``, ``finally`` or ``with`` is left out.
"""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Any

import gymbridge

_PACKAGE = os.path.dirname(gymbridge.__file__)
_NAMES = ("RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD")
_LOOKS = {dis.opmap[name] for name in _NAMES if name in dis.opmap}


class _Tracer:
    """Counts the places, and raises at one of them.

    Args:
        place: Number of the place to raise at, or None.
        error: What is raised there.
    """

    def __init__(self, place: int | None, error: BaseException | None) -> None:
        self.count, self._place, self._error = 0, place, error
        self._before: dict[Any, int] = {}  # where the instruction is that a frame ran last

    def __call__(self, frame: Any, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            if _looks_between(frame.f_code, self._before.get(frame), frame.f_lasti):
                self._pass()
            self._before[frame] = frame.f_lasti
        elif event == "return":
            self._before.pop(frame, None)
        return self

    def _pass(self) -> None:
        self.count += 1
        if self._error is not None and self.count - 1 == self._place:
            raise self._error


@cache
def _looks_between(code: CodeType, before: int | None, now: int) -> bool:
    """Return whether signals are looked for before an instruction, given the one before it."""
    if before is None:  # the function begins
        return True
    looks = code.co_code[before] in _LOOKS
    return looks and _find_handler(code, before) == _find_handler(code, now)


def _find_handler(code: CodeType, place: int) -> int | None:
    """Return where the function goes on if an instruction raises."""
    bytecode: Any = dis.Bytecode(code)
    around = [entry for entry in bytecode.exception_entries if entry.start <= place < entry.end]
    return around[-1].target if around else None


def count_places(call: Callable[[], Any]) -> int:
    """Return at how many places a call can be interrupted."""
    return _run(_Tracer(None, None), call)


def interrupted_at(place: int, call: Callable[[], Any], error: BaseException) -> None:
    """Make a call that a signal handler, which raises, cuts short at a place."""
    try:
        _run(_Tracer(place, error), call)
    except BaseException as raised:
        if error not in (raised, raised.__cause__):
            raise
    else:
        raise AssertionError(f"there is no place {place} in the call")


def _run(tracer: Any, call: Callable[[], Any]) -> int:
    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 has to know it before `settrace`
    sys.settrace(tracer)
    try:
        call()
    finally:
        sys.settrace(before)
    return tracer.count
