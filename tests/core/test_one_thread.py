"""A batch serves one call at a time: other threads, signal handlers and forked children."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from gymbridge import BridgeVectorEnv
from gymbridge.core.processes import OneThread
from gymbridge.errors import BusyError
from gymbridge.testing import ScriptedSimulator


@contextlib.contextmanager
def held_step(lengths: list[int]) -> Iterator[tuple[BridgeVectorEnv, list[Any]]]:
    """Yield a batch that another thread is stepping, and the list of what its steps return."""
    simulator = ScriptedSimulator(lengths)
    inside, go_on = threading.Event(), threading.Event()
    advance = simulator.advance

    def wait_and_advance(*args: Any) -> Any:
        inside.set()
        assert go_on.wait(60)
        return advance(*args)

    simulator.advance = wait_and_advance  # type: ignore[method-assign]
    envs = BridgeVectorEnv(simulator)
    envs.reset(seed=0)
    shown: list[Any] = []
    stepper = threading.Thread(target=lambda: shown.append(envs.step([1, 2])))
    stepper.start()
    assert inside.wait(60)
    try:
        yield envs, shown
    finally:
        go_on.set()
        stepper.join()


def test_second_thread__gets_an_error_at_once_and_nothing_is_lost() -> None:
    with held_step([9, 9]) as (envs, shown):
        for call in (lambda: envs.step([0, 0]), envs.reset, envs.close):
            with pytest.raises(BusyError, match="Another thread is in a call of this batch"):
                call()
    assert shown[0][0].tolist() == [1, 1]
    assert envs.step([0, 0])[0].tolist() == [2, 2], "the main thread may go on"
    envs.close()


def test_signal_handler__that_calls_the_batch_in_a_call_is_refused() -> None:
    simulator = ScriptedSimulator([9, 9])
    refused: list[str] = []
    advance = simulator.advance

    def call_again(*args: Any) -> Any:
        for call in (lambda: envs.step([0, 0]), envs.reset, envs.close):
            with pytest.raises(BusyError, match="signal handler") as caught:
                call()
            refused.append(str(caught.value))
        return advance(*args)

    simulator.advance = call_again  # type: ignore[method-assign]
    envs = BridgeVectorEnv(simulator)
    envs.reset(seed=0)
    assert envs.step([1, 2])[0].tolist() == [1, 1]
    assert len(refused) == 3


@pytest.fixture
def _untraced() -> Iterator[None]:
    """No trace of coverage.py, which an interrupt could leave with its own lock held."""
    before = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    yield
    threading.settrace(before[1])  # type: ignore[arg-type]
    sys.settrace(before[0])


@pytest.mark.usefixtures("_untraced")
def test_interrupts__leave_the_batch_to_any_thread() -> None:
    """Ctrl-C may arrive anywhere in a call; the lock must be free afterwards."""
    one, count = OneThread(), 0

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        until = time.monotonic() + 2
        while time.monotonic() < until:
            try:
                signal.setitimer(signal.ITIMER_REAL, 5e-5)  # once
                while True:
                    with one:
                        pass
            except KeyboardInterrupt:
                count += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    free: list[bool] = []

    def enter() -> None:
        with one:
            free.append(True)

    worker = threading.Thread(target=enter)
    worker.start()
    worker.join()
    assert free == [True]
    assert count > 100


def test_fork__while_another_thread_is_in_a_call_names_the_fork() -> None:
    context = multiprocessing.get_context("fork")
    told = context.SimpleQueue()
    with held_step([9, 9]) as (envs, _), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = context.Process(target=_tell_error, args=(envs, told))
        child.start()
        child.join(60)
    assert "fork" in told.get()


def _tell_error(envs: Any, told: Any) -> None:
    try:
        envs.reset()
    except Exception as error:
        told.put(f"{type(error).__name__}: {error}")
