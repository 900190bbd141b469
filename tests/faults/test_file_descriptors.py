"""A process that can open no more files: batches that run go on, and a snapshot stays whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from python_runs import run_python

pytest.importorskip("envpool.registration")
pytest.importorskip("brax.envs")

SCRIPT = """
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
print(open(path, "rb").read() == old, len([name for name in os.listdir(os.path.dirname(path))]))
twin.step(np.ones((2, 1)))
twin.step(np.ones((2, 1)))
print(np.array_equal(*(envs.step(np.ones((2, 1)))[0] for envs in (brax, twin))))
print(brax.load_state(path).shape)
BraxVectorEnv("fast", 3).reset(seed=0)
"""


@pytest.mark.slow
def test_process_without_files__keeps_its_batches_and_snapshots(tmp_path: Path) -> None:
    found = run_python("-c", SCRIPT, tmp_path / "state").lines
    wanted = ["24", "24", "True", "2", "True 1", "True", "(2, 2)"]
    assert found == wanted
