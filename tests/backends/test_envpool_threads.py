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
    list_threads,
    place_threads,
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
    before = list_threads()
    envs = EnvPoolVectorEnv(task_id, num_envs, **kwargs)
    envs.reset(seed=0)
    return envs, set(list_threads()) - set(before)


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
        if len(cores) > 1:  # in SAME_STEP its buffers are made there, too
            assert len(tied(threads)) == (len(threads) if mode == "SameStep" else 1)


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
    before = list_threads()
    envs.reset(seed=1)
    os.sched_setaffinity(0, {cores[-1]})
    envs.step(np.zeros(4, int))
    os.sched_setaffinity(0, cores)
    assert {cores[-1]} in tied(set(list_threads()) - set(before))


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
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    sent: list[Any] = []
    here = threading.get_native_id()
    send = place_threads(sent.append, PoolThreads([here], here), together=True)
    send([1])
    assert sent == [[1]]


def test_step__goes_on_where_the_system_has_no_such_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity")
    sent: list[Any] = []
    assert place_threads(sent.append, PoolThreads([1], 2), together=False) == sent.append


def test_buffers__are_made_when_the_caller_sleeps() -> None:
    _, threads = build()
    usual = (os.SCHED_OTHER, os.getpriority(os.PRIO_PROCESS, 0))
    rank = {(os.sched_getscheduler(t), os.getpriority(os.PRIO_PROCESS, t)) for t in threads}
    assert rank == {usual, (os.SCHED_BATCH, min(19, usual[1] + 5))}
    _, threads = build(num_threads=2)
    rank = {(os.sched_getscheduler(t), os.getpriority(os.PRIO_PROCESS, t)) for t in threads}
    assert rank == {usual}


@pytest.fixture
def others() -> Iterator[list[int]]:
    """Ids of three threads that wait, as if somebody else had started them beside a pool."""
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    yield [thread.native_id or 0 for thread in threads]
    stop.set()
    for thread in threads:
        thread.join()


def test_threads__are_not_guessed(others: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    before = [thread for thread in list_threads() if thread not in others]
    assert find_threads(before) is None, "one too many"
    assert find_threads([]) is None
    assert find_threads([*before, others[0]]) == ([others[1]], others[2])


def test_threads__of_a_large_machine_are_more(
    others: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """state_buffer_queue.h: one maker for each 64 cores."""
    before = [thread for thread in list_threads() if thread not in others]
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
    assert find_threads(before) == (others[:2], others[2])


def test_threads__come_in_the_order_of_their_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids begin anew at the end of their range, so the worker's can be the smaller one."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "listdir", lambda path: ["32000", "32765", "300"])
    assert find_threads([32000]) == ([32765], 300)


def test_threads__that_set_the_pool_up_may_end_late(monkeypatch: pytest.MonkeyPatch) -> None:
    listings = iter([["1", "7", "8", "9"], ["1", "8", "9"]])
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "listdir", lambda path: next(listings))
    assert find_threads([1]) == ([8], 9)


def test_threads__of_another_pid_namespace_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "readlink", lambda path: str(os.getpid() + 1))
    assert list_threads() == []


def test_interrupted_reset__leaves_a_pool_that_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent to one pool is received from the same."""
    envs, _ = build()
    envs.step(np.zeros(4, int))

    def interrupt(before: list[int]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("gymbridge.backends.envpool_build.find_threads", interrupt)
        with pytest.raises(KeyboardInterrupt):
            envs.reset(seed=1)
    assert envs.np_random_seed == (0, 1, 2, 3)
    expected, _ = build()
    expected.step(np.zeros(4, int))
    np.testing.assert_array_equal(envs.step(np.ones(4, int))[0], expected.step(np.ones(4, int))[0])
