"""What a machine's cores can give, and what a cheap step over all of them consists of."""

import time
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np
from steps import Contest, Step, over

from gymbridge.command_line.bench import draw_actions, make_bare_step
from gymbridge.core.cores import count_cores


def bare_ants(name: str, num_envs: int) -> Step:
    """Return Brax's own step."""
    envs = gym.make_vec(f"Brax/{name}-v0", num_envs=num_envs, backend="spring")
    return make_bare_step(envs, draw_actions(envs))


def serve(name: str, num_envs: int, pipe: Connection) -> None:
    """Take a step for each message."""
    step = bare_ants(name, num_envs)
    while True:
        step(pipe.recv())
        pipe.send(None)


def in_processes(name: str, num_envs: int, count: int) -> Step:
    """Return a step that is shared by processes."""
    context, pipes = get_context("spawn"), []
    for _ in range(count):
        pipe, other = context.Pipe()
        context.Process(target=serve, args=(name, num_envs // count, other), daemon=True).start()
        pipes.append(pipe)

    def step(index: int) -> None:
        for pipe in pipes:
            pipe.send(index)
        for pipe in pipes:
            pipe.recv()

    return step


def limit(num_envs: int, _: str, *, name: str) -> Contest:
    """Compare a bare process for each core with one that steps the whole batch."""
    cores = count_cores()
    steps = {
        "a process for each core": in_processes(name, num_envs, cores),
        "one process": bare_ants(name, num_envs),
    }
    return Contest(steps, over("one process", {"a process for each core": None}))


def parts(num_envs: int, _: str, *, num_steps: int = 700) -> dict[str, Any]:
    """Return what a step without physics spends its time on, on one device and on all."""
    make = partial(gym.make_vec, "Brax/fast-v0", num_envs=num_envs)
    batches: dict[str, Any] = {
        name: make(device=place) for name, place in (("all cores", "cpu:all"), ("one", "cpu"))
    }
    found: dict[str, float] = {}
    for name, envs in batches.items():
        envs.reset(seed=0)
        times = [parts_of_step(envs.unwrapped) for _ in range(num_steps)][num_steps // 3 :]
        for part, taken in zip(
            ("call", "wait", "hand over"), zip(*times, strict=True), strict=True
        ):
            found[f"{name}: {part}, us"] = median(taken)
    return {"figures": found}


def parts_of_step(envs: Any) -> list[float]:
    """Step a batch; return the microseconds of the call, of waiting, and of handing over."""
    import jax

    given, begun = envs._read_actions(np.zeros((envs.num_envs, 1), np.float32)), time.perf_counter()
    outcome = envs._runner.step(envs._carry, given)
    called = time.perf_counter()
    jax.block_until_ready(outcome.time_step)
    waited = time.perf_counter()
    envs._infos.to_gymnasium(outcome)
    handed = time.perf_counter()
    envs._carry = outcome.carry
    return [1e6 * seconds for seconds in (called - begun, waited - called, handed - waited)]
