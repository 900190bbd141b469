"""What a machine's cores can give."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import gymnasium as gym
from steps import Contest, Step, over

from gymbridge.command_line.bench import draw_actions, make_bare_step
from gymbridge.core.cores import count_cores

STEPS: list[Step] = []
"""The step of this process."""


def bare_ants(name: str, num_envs: int) -> Step:
    """Return Brax's own step."""
    envs = gym.make_vec(f"Brax/{name}-v0", num_envs=num_envs, backend="spring")
    return make_bare_step(envs, draw_actions(envs))


def begin(name: str, num_envs: int) -> None:
    STEPS.append(bare_ants(name, num_envs))


def take(index: int) -> None:
    STEPS[0](index)


def limit(num_envs: int, _: str, *, name: str) -> Contest:
    """Compare a bare process for each core with one that steps the whole batch."""
    spawn, part = get_context("spawn"), (name, num_envs // count_cores())
    processes = [ProcessPoolExecutor(1, spawn, begin, part) for _ in range(count_cores())]

    def together(index: int) -> None:
        for future in [process.submit(take, index) for process in processes]:
            future.result()

    steps = {"a process for each core": together, "one process": bare_ants(name, num_envs)}
    return Contest(steps, over("one process", {"a process for each core": None}))
