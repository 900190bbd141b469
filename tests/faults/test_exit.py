"""Processes that end with batches open, and batches that are dropped without `close`."""

from __future__ import annotations

import signal

import pytest

from tests.support.python_runs import run_python

pytest.importorskip("envpool.registration")
pytest.importorskip("brax.envs")
pytest.importorskip("torch")

MAKE = """
import sys, threading, time
import numpy as np
import torch
from gymbridge import BraxVectorEnv, EnvPoolVectorEnv
from gymbridge.envpool import AsyncEnvPool
from gymbridge.testing import scripted_vector_env

kept = []

def make(kinds):
    if "async" in kinds:
        pool = AsyncEnvPool("HalfCheetah-v5", 32, 8)
        pool.async_reset(seed=0)
        pool.send(np.zeros((8, 6)), pool.recv()[-1]["env_id"])
        kept.append(pool)
    if "pool" in kinds:
        kept.append(EnvPoolVectorEnv("CartPole-v1", 4, render_mode="rgb_array"))
        kept[-1].reset(seed=0)
        kept[-1].render()
    if "jax" in kinds:
        kept.append(scripted_vector_env([2, 3]))
        kept.extend(BraxVectorEnv("fast", 4, arrays=arrays) for arrays in ("numpy", "jax"))
        kept.append(BraxVectorEnv("fast", 4, arrays="torch", differentiable=True))
        for envs in kept[-4:]:
            envs.reset(seed=0)
            envs.step(envs.action_space.sample())
        kept.append(kept[-1].step(torch.zeros(4, 1, requires_grad=True)))
"""

ENDS = {
    "open": "make(sys.argv[1])",
    "of a thread": "one = threading.Thread(target=make, args=(sys.argv[1],))\none.start()",
    "in a cycle": "make(sys.argv[1])\nkept.append(kept)\ndel make, kept",
    "by an error": "make(sys.argv[1])\nraise SystemExit(0)",
}

DAEMON = """
def go_on():
    make(sys.argv[1])
    envs, is_made = kept[-1 if sys.argv[1] == "pool" else 1], made.set()
    while True:
        envs.step(np.zeros(envs.action_space.shape, envs.action_space.dtype))

made = threading.Event()
threading.Thread(target=go_on, daemon=True).start()
made.wait()
time.sleep(0.3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_process__ends_in_peace_with_open_batches(end: str) -> None:
    ended = run_python("-c", MAKE + ENDS[end], "async pool jax")
    assert (ended.out, _told(ended.log)) == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pool", "jax"])
def test_daemon_thread__that_is_in_a_call_can_abort_the_process_and_not_hang_it(kind: str) -> None:
    """Python ends daemon threads as they come back from C++, before 3.14; C++ forbids that."""
    ended = run_python("-c", MAKE + DAEMON, kind, code=None)
    assert ended.code in (0, -signal.SIGABRT, -signal.SIGSEGV)


DROPPED = """
import gc, os, sys, threading
from gymbridge import EnvPoolVectorEnv
from gymbridge.envpool import AsyncEnvPool
from gymbridge.testing import scripted_vector_env

def use(in_cycle=False):
    envs = EnvPoolVectorEnv("CartPole-v1", 4, num_threads=2)
    envs.reset(seed=0)
    envs.step([0] * 4)
    pool = AsyncEnvPool("CartPole-v1", 4, 2, num_threads=2)
    pool.async_reset(seed=0)
    scripted = scripted_vector_env([2, 3])
    if in_cycle:
        envs.itself, pool.itself, scripted.itself = envs, pool, scripted

def measure():
    gc.collect()
    resident = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")
    return len(os.listdir("/proc/self/task")), resident

def repeat(count):
    for index in range(count):
        use(in_cycle=index % 10 == 0)

repeat(200)
before = measure()
gc.disable()
for _ in range(300):
    use()
threads = len(os.listdir("/proc/self/task"))
gc.enable()
worker = threading.Thread(target=repeat, args=(500,))
worker.start()
worker.join()
after = measure()
print(threads - before[0], after[0] - before[0], (after[1] - before[1]) // 2**20)
"""


@pytest.mark.slow
def test_dropped_pools__leave_neither_threads_nor_memory() -> None:
    """A thousand of them: in this thread and another, in cycles, with an exchange in flight."""
    without_collector, threads, mebibytes = map(int, run_python("-c", DROPPED).out.split())
    assert (without_collector, threads) == (0, 0)
    assert mebibytes < 20


def _told(errors: str) -> str:
    """Return what a process wrote to stderr, without what Brax's import does."""
    return "\n".join(line for line in errors.splitlines() if "warp" not in line)
