"""What a step of EnvPoolVectorEnv costs over EnvPool's own ``step``.

    python examples/benchmarks/envpool_step.py [--rounds 15]

The reference is the pool's own Python ``step``, which knows NEXT_STEP only, has no masks in its
infos, checks no actions and calls an end on the last allowed step a truncation.
"""

from __future__ import annotations

import argparse
import warnings

import envpool
from timing import Row, interleave, print_table

from gymbridge import EnvPoolVectorEnv

CASES = (
    ("CartPole-v1", 8, 1500, 0.75, 1.15),
    ("CartPole-v1", 64, 800, 0.85, 1.45),
    ("Pong-v5", 8, 60, 1.00, 1.05),
    ("HalfCheetah-v4", 8, 300, 1.00, 1.05),
)
"""Task, environments, steps per round, bar of NEXT_STEP, bar of SAME_STEP."""


def measure(
    task_id: str, num_envs: int, count: int, bars: dict[str, float], rounds: int
) -> list[Row]:
    """Measure both modes of one task against EnvPool's own step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool = envpool.make_gymnasium(task_id, num_envs=num_envs, seed=0)
        pool.reset()
    batches = {mode: EnvPoolVectorEnv(task_id, num_envs, autoreset_mode=mode) for mode in bars}
    space = batches["NextStep"].action_space
    space.seed(0)
    actions = [space.sample() for _ in range(64)]
    steps = {"own": lambda index: pool.step(actions[index % 64])}
    for mode, envs in batches.items():
        envs.reset(seed=0)
        steps[mode] = lambda index, envs=envs: envs.step(actions[index % 64])
    taken = interleave(steps, count=count, rounds=rounds)
    note = f"own step {taken['own'][0]:.0f} us"
    return [
        Row(f"{task_id}, {num_envs} envs, {mode}", *taken[mode], bar, note)
        for mode, bar in bars.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    rows: list[Row] = []
    for task_id, num_envs, count, next_step, same_step in CASES:
        bars = {"NextStep": next_step, "SameStep": same_step}
        rows += measure(task_id, num_envs, count, bars, options.rounds)
    print_table(rows)


if __name__ == "__main__":
    main()
