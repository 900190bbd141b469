"""The only worker of a pool runs on the core of its caller, and its maker of buffers gives way."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool")
if sys.platform != "linux":
    pytest.skip("threads are moved on Linux alone", allow_module_level=True)

from gymbridge import EnvPoolVectorEnv
from gymbridge.backends.envpool_threads import (
    PoolThreads,
    find_threads,
    place_threads,
    thread_ids,
)

MODES = ("NextStep", "SameStep", "Disabled")


@pytest.fixture(autouse=True)
def cores() -> Iterator[list[int]]:
    """The cores of this test, to all of which its thread returns."""
    allowed = os.sched_getaffinity(0)
    yield sorted(allowed)
    os.sched_setaffinity(0, allowed)


def build(task_id: str = "CartPole-v1", num_envs: int = 4, **kwargs: Any) -> tuple[Any, set[int]]:
    """Return a batch whose episodes run, and the ids of the threads that it started."""
    before = thread_ids()
    envs = EnvPoolVectorEnv(task_id, num_envs, **kwargs)
    envs.reset(seed=0)
    return envs, thread_ids() - before


def tied(threads: set[int]) -> list[set[int]]:
    """Return the cores of those threads that may not run on all."""
    found = [os.sched_getaffinity(thread) for thread in threads]
    return [cores for cores in found if cores != os.sched_getaffinity(0) or len(cores) == 1]


@pytest.mark.parametrize("mode", MODES)
def test_worker__follows_its_caller(mode: str, cores: list[int]) -> None:
    envs, threads = build(autoreset_mode=mode)
    for core in (*cores, cores[0]):
        os.sched_setaffinity(0, {core})
        envs.step(np.zeros(4, int))
        os.sched_setaffinity(0, cores)
        assert {core} in tied(threads)
        assert len(tied(threads)) == 1 or len(cores) == 1, "its buffers are made elsewhere"


def test_worker__follows_from_thread_to_thread(cores: list[int]) -> None:
    """The affinity that counts is that of the thread that steps."""
    envs, threads = build()
    found = []

    def play(core: int) -> None:
        os.sched_setaffinity(0, {core})
        envs.step(np.zeros(4, int))
        found.append([os.sched_getaffinity(thread) for thread in threads])

    for core in cores:
        player = threading.Thread(target=play, args=(core,))
        player.start()
        player.join()
        assert {core} in found[-1]
    assert os.sched_getaffinity(0) == set(cores), "the caller itself is free"


def test_worker__of_a_new_seed_follows_too(cores: list[int]) -> None:
    envs, _ = build()
    before = thread_ids()
    envs.reset(seed=1)
    os.sched_setaffinity(0, {cores[-1]})
    envs.step(np.zeros(4, int))
    os.sched_setaffinity(0, cores)
    assert {cores[-1]} in tied(thread_ids() - before)


@pytest.mark.parametrize("kwargs", [{"num_threads": 2}, {"thread_affinity_offset": 0}])
def test_workers__that_the_user_placed_stay(kwargs: dict[str, int], cores: list[int]) -> None:
    """Several work at the same time; an offset ties each to a core by EnvPool's own rule."""
    envs, threads = build(**kwargs)
    placed = {thread: os.sched_getaffinity(thread) for thread in threads}
    for core in cores:
        os.sched_setaffinity(0, {core})
        envs.step(np.zeros(4, int))
        assert {thread: os.sched_getaffinity(thread) for thread in threads} == placed


def test_cheap_tasks__have_one_worker_by_default() -> None:
    for task_id, count in (("CartPole-v1", 1), ("FrozenLake-v1", 1), ("HalfCheetah-v5", 0)):
        envs, _ = build(task_id)
        assert envs.get_attr("config")[0].num_threads == count, task_id


def test_step__goes_on_where_the_system_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    monkeypatch.setattr(os, "setpriority", refuse)
    sent: list[Any] = []
    here = threading.get_native_id()
    send = place_threads(sent.append, PoolThreads(here, here))
    send([1])
    assert sent == [[1]]


def test_step__goes_on_where_the_system_has_no_such_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity")
    sent: list[Any] = []
    assert place_threads(sent.append, PoolThreads(1, 2)) == sent.append


def test_buffers__are_made_when_nothing_else_runs() -> None:
    _, threads = build()
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    maker, worker = sorted(os.getpriority(os.PRIO_PROCESS, thread) for thread in threads)[::-1]
    assert (maker, worker) == (19, usual)
    _, threads = build(num_threads=2)
    assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {usual}


def test_threads__are_not_guessed() -> None:
    """With a thread of somebody else beside, nobody knows which are the pool's."""
    before = thread_ids()
    stop = threading.Event()
    others = [threading.Thread(target=stop.wait) for _ in range(3)]
    for other in others:
        other.start()
    try:
        ids = [other.native_id or 0 for other in others]
        assert find_threads(before) is None
        assert find_threads(set()) is None
        assert find_threads(before | {ids[0]}) == tuple(sorted(ids[1:]))
    finally:
        stop.set()
        for other in others:
            other.join()
