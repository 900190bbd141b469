"""What belongs to the whole process stays as it was when threads build batches at the same time."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import permutations
from typing import Any

import pytest

from tests.support.python_runs import run_python

Context = Callable[[], contextlib.AbstractContextManager[Any]]

OTHERS: dict[str, Context] = {
    "catch_warnings": lambda: warnings.catch_warnings(),
    "redirect_stdout": lambda: contextlib.redirect_stdout(io.StringIO()),
}


def overlap(one: Context, other: Context) -> None:
    """Enter and leave two contexts in each order that two threads can have."""
    for order in sorted(set(permutations([0, 0, 1, 1]))):
        contexts = [one(), other()]
        for place, index in enumerate(order):
            if index in order[:place]:
                contexts[index].__exit__(None, None, None)
            else:
                contexts[index].__enter__()


@pytest.mark.parametrize("other", ["itself", *OTHERS])
@pytest.mark.parametrize("engine", ["brax", "envpool"])
def test_blocks_that_overlap__leave_streams_and_warnings(engine: str, other: str) -> None:
    if engine == "brax":
        from gymbridge.private.notices import quiet as block
    else:
        pytest.importorskip("envpool")
        from gymbridge.envpool.pool import name_task

        block = partial(name_task, "build", "Acrobot-v1")
    stream, filters, finders = sys.stdout, warnings.filters, [*sys.meta_path]
    before = [*filters]
    overlap(block, OTHERS.get(other, block))
    assert sys.stdout is stream
    assert warnings.filters is filters
    assert [*filters] == before
    assert sys.meta_path == finders


def test_jax__is_started_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax")
    from gymbridge.core.arrays import jax_devices

    inside, most, start = [], [], jax_devices._start_jax

    def start_slowly(*args: Any) -> Any:
        inside.append(args)
        most.append(len(inside))
        time.sleep(0.05)
        inside.pop()
        return start(*args)

    monkeypatch.setattr(jax_devices, "_start_jax", start_slowly)
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda _: jax_devices.start_jax_on(None, 1), range(3)))
    assert most == [1, 1, 1]


def test_pool_of_threads__bears_that_another_thread_unsets_its_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from gymbridge.private.jax import pool_of

    monkeypatch.delenv("NPROC", raising=False)
    with pool_of(3):
        monkeypatch.delenv("NPROC")


BUILDING = """
import json, os, sys, threading, time, warnings
from gymbridge import BraxVectorEnv
from gymbridge.private.brax import brax_envs

class Slow(brax_envs.fast.Fast):
    def __init__(self, **kwargs):
        super().__init__()
        warnings.warn("Brax System, piplines and environments are not actively being maintained")
        time.sleep(0.2)

brax_envs.register_environment("slow", Slow)

def look():
    return [sys.stdout, warnings.filters, sys.meta_path, dict(os.environ)]

def build():
    together.wait()
    built.append(BraxVectorEnv("slow", num_envs=2))

def talk():
    together.wait()
    while any(builder.is_alive() for builder in builders):
        said.append(len(said))
        print(said[-1])
        time.sleep(0.001)

before = [one.copy() if hasattr(one, "copy") else one for one in look()]
built, said, together = [], [], threading.Barrier(4)
builders = [threading.Thread(target=build) for _ in range(3)]
threads = [*builders, threading.Thread(target=talk)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert [len(built), *look()] == [3, *before]
print(json.dumps(said))
"""


def test_threads_that_build__change_nothing_and_lose_no_text() -> None:
    """The engines are imported before, since their own imports change filters for a while."""
    pytest.importorskip("brax")
    done = run_python(
        "-W", "error:JAXopt is no longer maintained:DeprecationWarning", "-c", BUILDING
    )
    *printed, said = done.lines
    assert [int(line) for line in printed] == json.loads(said) != []
    assert done.log == ""
