"""What a step of EnvPoolVectorEnv costs over EnvPool's own ``step``.

    python examples/benchmarks/envpool_step.py [--rounds 31] [--threads | --jax]

The reference is the pool's own Python ``step``, once with EnvPool's default threads and once with
the number that EnvPoolVectorEnv chooses. It knows NextStep only, has no masks in its infos, checks
no actions and calls an end on the last allowed step a truncation.

``--jax`` measures jax arrays, and ``functional()`` inside ``jax.lax.scan``, over the class with
numpy arrays.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import envpool
import numpy as np
from timing import Row, compare, interleave, print_table

from gymbridge import EnvPoolVectorEnv

CASES = (
    ("CartPole-v1", 8, 1000, 0.90, 1.20),
    ("CartPole-v1", 64, 400, 1.10, 1.50),
    ("CartPole-v1", 1024, 40, 1.05, 1.40),
    ("Pong-v5", 8, 40, 1.03, 1.08),
    ("HalfCheetah-v4", 8, 200, 1.03, 1.08),
)
"""Task, environments, steps per round, bar of NextStep, bar of SameStep."""

SCAN_STEPS = 200


def make_own(task_id: str, num_envs: int, num_threads: int) -> Any:
    """Return EnvPool's own batch, running."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool: Any = envpool.make_gymnasium(
            task_id, num_envs=num_envs, seed=0, num_threads=num_threads
        )
        pool.reset()
    return pool


def measure(
    task_id: str, num_envs: int, count: int, bars: dict[str, float], rounds: int
) -> list[Row]:
    """Measure both modes of one task against EnvPool's own step."""
    batches = {mode: EnvPoolVectorEnv(task_id, num_envs, autoreset_mode=mode) for mode in bars}
    ours = batches["NextStep"].get_attr("config")[0].num_threads
    pools = {"default": make_own(task_id, num_envs, 0), "ours": make_own(task_id, num_envs, ours)}
    space = batches["NextStep"].action_space
    space.seed(0)
    actions = [space.sample() for _ in range(64)]
    steps = {
        name: lambda index, pool=pool: pool.step(actions[index % 64])
        for name, pool in pools.items()
    }
    for mode, envs in batches.items():
        envs.reset(seed=0)
        steps[mode] = lambda index, envs=envs: envs.step(actions[index % 64])
    times = interleave(steps, count=count, rounds=rounds)
    rows = []
    for mode, bar in bars.items():
        other = compare(times, mode, "ours").ratio
        note = f"{other} over EnvPool with num_threads={ours}"
        case = f"{task_id}, {num_envs:,} envs, {mode}"
        rows.append(Row(case, *compare(times, mode, "default"), bar, note))
    return rows


def measure_threads(task_id: str, num_envs: int, rounds: int) -> Row:
    """Measure EnvPool's own step with one worker against its default threads."""
    pools = {name: make_own(task_id, num_envs, n) for name, n in (("default", 0), ("one", 1))}
    space = pools["one"].action_space
    space.seed(0)
    actions = [np.array([space.sample() for _ in range(num_envs)]) for _ in range(16)]
    steps = {
        name: lambda index, pool=pool: pool.step(actions[index % 16])
        for name, pool in pools.items()
    }
    times = interleave(steps, count=max(10, min(400, 40_000 // num_envs)), rounds=rounds)
    case = f"{task_id}, {num_envs:,} envs, one worker over the default"
    return Row(case, *compare(times, "one", "default"), None)


def make_scan(envs: Any, actions: np.ndarray) -> Callable[[int], Any]:
    """Return the function that takes all steps in one compiled scan."""
    import jax

    carry, _, step = envs.functional()
    run = jax.jit(lambda carry: jax.lax.scan(step, carry, actions))

    def scan(_: int) -> Any:
        nonlocal carry
        carry, returned = run(carry)
        return jax.block_until_ready(returned)

    return scan


def measure_jax(rounds: int) -> list[Row]:
    """Measure CartPole with jax arrays, and inside a scan, against its class with numpy arrays."""
    import jax.numpy as jnp

    def make(mode: str, arrays: str) -> Any:
        envs = EnvPoolVectorEnv("CartPole-v1", 64, autoreset_mode=mode, arrays=arrays)
        envs.reset(seed=0)
        return envs

    actions = np.random.default_rng(0).integers(0, 2, (SCAN_STEPS, 64), np.int32)
    on_device = [jnp.asarray(row) for row in actions]
    steps: dict[str, Callable[[int], Any]] = {}
    for mode in ("NextStep", "SameStep"):
        for arrays, given in (("numpy", actions), ("jax", on_device)):
            envs = make(mode, arrays)
            steps[f"{mode} {arrays}"] = lambda index, envs=envs, given=given: envs.step(
                given[index % SCAN_STEPS]
            )
        steps[f"{mode} scan"] = make_scan(make(mode, "jax"), actions)
    counts = {name: 2 if name.endswith("scan") else 2 * SCAN_STEPS for name in steps}
    times = interleave(steps, count=counts, rounds=rounds)
    rows = []
    for mode in ("NextStep", "SameStep"):
        times[f"{mode} scan"] = [time / SCAN_STEPS for time in times[f"{mode} scan"]]
        for kind, text, bar in (
            ("jax", "arrays='jax'", 2.0),
            ("scan", f"functional(), scan of {SCAN_STEPS} steps", 2.5),
        ):
            taken = compare(times, f"{mode} {kind}", f"{mode} numpy")
            rows.append(Row(f"CartPole-v1, 64 envs, {mode}, {text}", *taken, bar))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument(
        "--threads", action="store_true", help="only compare numbers of threads, in EnvPool itself"
    )
    parser.add_argument("--jax", action="store_true", help="only measure jax arrays and functional")
    options = parser.parse_args()
    rows: list[Row] = []
    if options.threads:
        for task_id in ("CartPole-v1", "Acrobot-v1", "FrozenLake-v1", "HalfCheetah-v4"):
            for num_envs in (8, 64, 256, 1024):
                rows.append(measure_threads(task_id, num_envs, options.rounds))
    elif options.jax:
        rows = measure_jax(options.rounds)
    else:
        for task_id, num_envs, count, next_step, same_step in CASES:
            bars = {"NextStep": next_step, "SameStep": same_step}
            rows += measure(task_id, num_envs, count, bars, options.rounds)
    print_table(rows)


if __name__ == "__main__":
    main()
