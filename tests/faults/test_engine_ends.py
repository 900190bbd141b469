"""Processes where memory, threads or files run out: EnvPool's C++ as it is today, and batches."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.support.python_runs import run_python

pytest.importorskip("envpool.registration")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="limits are those of Linux"),
]

LIMITED = """
import os, resource, sys
from gymbridge import EnvPoolVectorEnv
from gymbridge.errors import SimulationError
task, what, number, more = sys.argv[1], sys.argv[2], int(sys.argv[3]), eval(sys.argv[4])
envs = EnvPoolVectorEnv(task, 256, **more)
if what == "memory":  # MiB beyond what is used now
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + number * 2**20,) * 2)
elif what == "threads":  # of the user, beyond those that run now
    if os.getuid() == 0:
        os.setuid(54321)  # whom no limit spares
    mine = [pid for pid in os.listdir("/proc") if pid.isdigit() and os.path.exists(f"/proc/{pid}")
            and os.stat(f"/proc/{pid}").st_uid == os.getuid()]
    count = sum(len(os.listdir(f"/proc/{pid}/task")) for pid in mine)
    resource.setrlimit(resource.RLIMIT_NPROC, (count + number,) * 2)
else:
    resource.setrlimit(resource.RLIMIT_NOFILE, (256,) * 2)
    try:
        while True:
            os.open("/dev/null", os.O_RDONLY)
    except OSError:
        pass
try:
    envs.reset(seed=0)
    print("runs")
except SimulationError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("task_id", "what", "number", "more", "code", "text"),
    [
        ("Pong-v5", "memory", 100, {}, -signal.SIGABRT, "std::bad_alloc"),
        ("CartPole-v1", "memory", 5, {"num_threads": 2}, 0, "EnvPool cannot build 'CartPole-v1'"),
        ("CartPole-v1", "threads", 9, {"num_threads": 64}, -signal.SIGABRT, "terminate called"),
        ("CartPole-v1", "threads", 0, {"num_threads": 64}, 0, "Resource temporarily unavailable"),
        ("Pong-v5", "files", 0, {}, 1, "Couldn't open"),
        ("HalfCheetah-v5", "files", 0, {}, 0, "EnvPool cannot build 'HalfCheetah-v5'"),
        ("CartPole-v1", "files", 0, {}, 0, "runs"),
    ],
)
def test_pool__without_memory_threads_or_files(
    task_id: str, what: str, number: int, more: dict[str, int], code: int, text: str
) -> None:
    ended = run_python("-c", LIMITED, task_id, what, number, more, code=None)
    assert ended.code == code, ended
    assert text in ended.out + ended.log


WITHOUT_FILES = """
import os, resource, sys
import numpy as np
from gymbridge import BraxVectorEnv, EnvPoolVectorEnv
from gymbridge.errors import SimulationError

path = sys.argv[1]
brax, twin = (BraxVectorEnv("fast", 2) for _ in range(2))
pool = EnvPoolVectorEnv("CartPole-v1", 2, render_mode="rgb_array")
for envs in (brax, twin, pool):
    envs.reset(seed=0)
brax.save_state(path)
old = open(path, "rb").read()
brax.step(np.ones((2, 1)))
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
for call in (lambda: brax.save_state(path), lambda: brax.load_state(path)):
    try:
        call()
        print("no error")
    except OSError as error:
        print(error.errno)
try:
    BraxVectorEnv("ant", 2)
except (OSError, SimulationError) as error:
    print("Too many open files" in str(error))
brax.step(np.ones((2, 1)))
pool.step([0, 1])
pool.reset(seed=1)
print(len(pool.render()))
pool.close()
for number in held:
    os.close(number)
print(open(path, "rb").read() == old, len(os.listdir(os.path.dirname(path))))
twin.step(np.ones((2, 1)))
twin.step(np.ones((2, 1)))
print(np.array_equal(*(envs.step(np.ones((2, 1)))[0] for envs in (brax, twin))))
print(brax.load_state(path).shape)
BraxVectorEnv("fast", 3).reset(seed=0)
"""


def test_process_without_files__keeps_its_batches_and_snapshots(tmp_path: Path) -> None:
    pytest.importorskip("brax.envs")
    found = run_python("-c", WITHOUT_FILES, tmp_path / "state").lines
    wanted = ["24", "24", "True", "2", "True 1", "True", "(2, 2)"]
    assert found == wanted
