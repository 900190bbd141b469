"""What CleanRL's view costs over our own SameStep step.

    python examples/benchmarks/cleanrl_step.py [--rounds 61]

The reference is `EnvPoolVectorEnv.step` in SameStep mode, whose infos the view splits by
environment. A second view also normalises, as continuous PPO does. With random actions, some of 64
CartPoles end in almost every step, so the figures include the cost of ends.
"""

from __future__ import annotations

import argparse

from timing import Row, compare, interleave, print_table

from gymbridge import EnvPoolVectorEnv
from gymbridge.trainers.cleanrl import make_cleanrl

CASES = (
    ("CartPole-v1", 8, 400, None),
    ("CartPole-v1", 64, 200, 1.20),
    ("HalfCheetah-v4", 8, 100, None),
)
"""Task, environments, steps per round, bar of the view."""


def measure(task_id: str, num_envs: int, count: int, bar: float | None, rounds: int) -> list[Row]:
    """Measure the view, with and without statistics of observations, against the batch itself."""
    own = EnvPoolVectorEnv(task_id, num_envs, autoreset_mode="SameStep")
    batches = {
        "SameStep": own,
        "view": make_cleanrl(f"EnvPool/{task_id}", num_envs),
        "view, normalize='batch'": make_cleanrl(f"EnvPool/{task_id}", num_envs, normalize="batch"),
    }
    own.action_space.seed(0)
    actions = [own.action_space.sample() for _ in range(64)]
    steps = {}
    for name, envs in batches.items():
        envs.reset(seed=0)
        steps[name] = lambda index, envs=envs: envs.step(actions[index % 64])
    times = interleave(steps, count=count, rounds=rounds)
    taken = {name: compare(times, name, "SameStep") for name in steps}
    ended = sum("final_obs" in own.step(actions[i % 64])[-1] for i in range(200)) / 2
    note = f"own step {taken['SameStep'].microseconds:.0f} us; {ended:.0f}% of steps end an episode"
    bars = {"view": bar}
    return [
        Row(f"{task_id}, {num_envs} envs, {name}", *taken[name], bars.get(name), note)
        for name in batches
        if name != "SameStep"
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=61)
    options = parser.parse_args()
    rows: list[Row] = []
    for task_id, num_envs, count, bar in CASES:
        rows += measure(task_id, num_envs, count, bar, options.rounds)
    print_table(rows)


if __name__ == "__main__":
    main()
