"""What `AsyncEnvPool` costs over EnvPool's own `send` and `recv`, and what it gains over a batch.

    python examples/benchmarks/async_step.py [--rounds 15]

The first row steps CartPole, whose steps are so cheap that every microsecond of Python counts. The
others step environments whose steps take uneven times. They compare the same number of steps, taken
all together and in the order in which environments are ready.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from typing import Any

import envpool
import numpy as np
from timing import Row, compare, interleave, print_table

from gymbridge import EnvPoolVectorEnv
from gymbridge.envpool import AsyncEnvPool

warnings.filterwarnings("ignore", message=".*Box .* precision")


def draw_actions(space: Any, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    if space.shape == ():
        return [rng.integers(space.n, size=count, dtype=space.dtype) for _ in range(64)]
    return [rng.uniform(-1, 1, (count, *space.shape)).astype(space.dtype) for _ in range(64)]


def async_turn(pool: Any, actions: list[np.ndarray]) -> Callable[[int], None]:
    """Return a function that receives environments and sends them on."""

    def turn(index: int) -> None:
        *_, infos = pool.recv()
        pool.send(actions[index % len(actions)], infos["env_id"])

    return turn


def overhead_row(num_envs: int, batch_size: int, budget: dict[str, int]) -> Row:
    """Compare turns with one thread each, of five pairs of pools, since each gets other cores."""
    times: dict[str, list[float]] = {"ours": [], "own": []}
    for _ in range(5):
        ours = AsyncEnvPool("CartPole-v1", num_envs, batch_size, num_threads=1)
        ours.async_reset(seed=0)
        own: Any = envpool.make_gymnasium(
            "CartPole-v1", num_envs=num_envs, batch_size=batch_size, num_threads=1, seed=0
        )
        own.async_reset()
        actions = draw_actions(ours.single_action_space, batch_size)
        turns = {"ours": async_turn(ours, actions), "own": async_turn(own, actions)}
        for name, rounds in interleave(turns, **budget).items():
            times[name] += rounds
    taken = compare(times, "ours", "own")
    case = f"CartPole, {num_envs} envs, {batch_size} at a time, over EnvPool's own send and recv"
    return Row(case, taken.microseconds, taken.ratio, 1.15, "one thread each")


def gain_row(task: str, num_envs: int, batch_size: int, budget: dict[str, int]) -> Row:
    """Compare `num_envs` steps in the order they are ready with one step of the whole batch."""
    threads = os.cpu_count() or 1
    pool = AsyncEnvPool(task, num_envs + batch_size, batch_size, num_threads=threads)
    pool.async_reset(seed=0)
    envs = EnvPoolVectorEnv(task, num_envs, num_threads=threads)
    envs.reset(seed=0)
    turn = async_turn(pool, draw_actions(pool.single_action_space, batch_size))
    actions = draw_actions(envs.single_action_space, num_envs)

    def come(index: int) -> None:
        for part in range(num_envs // batch_size):
            turn(index * num_envs + part)

    def together(index: int) -> None:
        envs.step(actions[index % len(actions)])

    taken = compare(interleave({"come": come, "together": together}, **budget), "come", "together")
    case = f"{num_envs} steps of {task}, {batch_size} at a time, over a step of {num_envs} envs"
    return Row(case, taken.microseconds, taken.ratio, None, f"{threads} threads")


def main() -> None:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each measurement")
    parser.add_argument(
        "--count", type=int, default=300, help="turns in a round; fewer for the rest"
    )
    args = parser.parse_args()
    budget = {"rounds": args.rounds, "count": args.count}
    slow = {"rounds": args.rounds, "count": max(1, args.count // 10)}
    print_table(
        [
            overhead_row(64, 32, budget),
            gain_row("Ant-v5", 4, 1, slow),
            gain_row("HumanoidStandup-v5", 4, 1, slow),
            gain_row("LunarLander-v3", 8, 2, slow),
        ]
    )


if __name__ == "__main__":
    main()
