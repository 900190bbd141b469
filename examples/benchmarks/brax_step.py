"""What a step of BraxVectorEnv costs over the bare jitted ``vmap(env.step)``.

    python examples/benchmarks/brax_step.py [--rounds 15] [--only inverted_pendulum fast]

The reference fetches observation, reward and done as numpy arrays and never restarts an episode.
Both get the same new random actions.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from bare import bare_step
from brax import envs as brax_envs
from timing import Row, compare, interleave, print_table

from gymbridge import BraxVectorEnv

warnings.filterwarnings("ignore", message="Brax System")
NUM_ENVS = 256
BARS: dict[str, dict[str, float | None]] = {
    "reacher": {"NextStep": 1.10, "SameStep": 1.10, "Disabled": 1.10},
    "inverted_pendulum": {"NextStep": 1.20, "SameStep": 1.20},
    "fast": {"NextStep": None, "SameStep": None, "Disabled": None},
}


def bridged_step(envs: BraxVectorEnv, actions: list[np.ndarray], ends: list[float]):
    """Return the step of a batch, noting the share of episodes that end in it."""
    envs.reset(seed=0)

    def step(index: int) -> None:
        _, _, terminations, truncations, _ = envs.step(actions[index % len(actions)])
        ends.append(float((terminations | truncations).mean()))

    return step


def step_rows(
    name: str, bars: dict[str, float | None], *, count: int, rounds: int, limit: int | None = None
) -> list[Row]:
    """Measure one environment in several modes against its bare step."""
    engine = brax_envs.get_environment(name, backend="generalized")
    rng, shape = np.random.default_rng(0), (NUM_ENVS, engine.action_size)
    actions = [rng.uniform(-1, 1, shape).astype(np.float32) for _ in range(64)]
    steps = {"bare": bare_step(engine, NUM_ENVS, actions)}
    ends: dict[str, list[float]] = {mode: [] for mode in bars}
    for mode in bars:
        envs = BraxVectorEnv(
            name,
            NUM_ENVS,
            backend="generalized",
            autoreset_mode=mode,
            max_episode_steps=-1 if mode == "Disabled" else limit,
        )
        steps[mode] = bridged_step(envs, actions, ends[mode])
    times = interleave(steps, count=count, rounds=rounds)
    taken = {name: compare(times, name, "bare") for name in steps}
    return [
        Row(
            f"{name}, {NUM_ENVS} envs, {mode}",
            *taken[mode],
            bar,
            f"{np.mean(ends[mode]):.1%} end per step, "
            f"{taken[mode].microseconds - taken['bare'].microseconds:+.0f} us",
        )
        for mode, bar in bars.items()
    ]


def restart_row(*, count: int, rounds: int) -> Row:
    """Measure 1% of 1,024 environments restarting in every step against none."""
    num_envs, limit = 1024, 100
    rng = np.random.default_rng(0)
    actions = [rng.uniform(-1, 1, (num_envs, 2)).astype(np.float32) for _ in range(64)]
    ends: list[float] = []
    steps = {}
    for name, max_episode_steps in (("no limit", -1), ("limit 100", limit)):
        envs = BraxVectorEnv(
            "reacher", num_envs, backend="generalized", max_episode_steps=max_episode_steps
        )
        steps[name] = bridged_step(envs, actions, ends if name == "limit 100" else [])
        for index in range(limit):  # stagger the episodes by partial resets
            envs.reset(options={"reset_mask": np.arange(num_envs) % limit == index})
            envs.step(actions[0])
    ends.clear()
    times = interleave(steps, count=count, rounds=rounds)
    taken = compare(times, "limit 100", "no limit")
    case = "reacher, 1,024 envs, NextStep, limit 100 over no limit"
    return Row(case, *taken, 1.10, f"{np.mean(ends):.1%} end per step")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--only", nargs="+", choices=BARS, default=list(BARS), help="tasks")
    options = parser.parse_args()
    budget = {"count": options.count, "rounds": options.rounds}
    rows = [row for name in options.only for row in step_rows(name, BARS[name], **budget)]
    if "reacher" in options.only:
        rows.append(restart_row(count=max(options.count // 4, 4), rounds=options.rounds))
    print_table(rows)


if __name__ == "__main__":
    main()
