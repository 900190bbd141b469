"""What a machine's cores can give."""

from multiprocessing import get_context
from multiprocessing.connection import Connection

import gymnasium as gym
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


def limit(num_envs: int, _: str, *, name: str) -> Contest:
    """Compare a bare process for each core with one that steps the whole batch."""
    context, cores, pipes = get_context("spawn"), count_cores(), []
    for _ in range(cores):
        pipe, other = context.Pipe()
        context.Process(target=serve, args=(name, num_envs // cores, other), daemon=True).start()
        pipes.append(pipe)

    def together(index: int) -> None:
        for pipe in pipes:
            pipe.send(index)
        for pipe in pipes:
            pipe.recv()

    steps = {"a process for each core": together, "one process": bare_ants(name, num_envs)}
    return Contest(steps, over("one process", {"a process for each core": None}))
