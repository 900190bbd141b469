"""What a step of PlaygroundVectorEnv costs over the jitted ``vmap(env.step)`` of Playground.

    python examples/benchmarks/playground_step.py [--only Cartpole]

Both are on one device and over the same implementation of MJX. The reference fetches the same
outputs as numpy arrays, with metrics and infos, and never restarts an episode.
"""

from __future__ import annotations

import argparse
import re

import numpy as np
from bare import FETCHED, bare_step
from timing import Row, compare, interleave, print_table

from gymbridge import PlaygroundVectorEnv

NUM_ENVS = 64
CASES = {
    ("Go1JoystickFlatTerrain", "jax"): 1.15,
    ("CartpoleBalance", "jax"): None,
    ("CartpoleBalance", "warp"): 1.20,
    ("HopperHop", "warp"): None,
}
"""Task and implementation; the bar."""


def step_rows(name: str, impl: str, bar: float | None, *, count: int, rounds: int) -> list[Row]:
    """Measure a task in two modes against Playground's own step."""
    steps, rng = {}, np.random.default_rng(0)
    for mode in ("NextStep", "SameStep"):
        envs = PlaygroundVectorEnv(name, NUM_ENVS, impl=impl, autoreset_mode=mode)
        envs.reset(seed=0)
        shape = (64, *envs.action_space.shape)
        actions = list(rng.uniform(-1, 1, shape).astype(np.float32))
        if not steps:
            engine, infos = envs._simulator.engine.unwrapped, envs.step(actions[0])[4]
            outputs = (*FETCHED, "metrics"), [*infos, *infos.get("info", ())]
            steps["bare"] = bare_step(engine, NUM_ENVS, actions, *outputs)
        steps[mode] = lambda index, envs=envs, actions=actions: envs.step(actions[index % 64])
    times = interleave(steps, count=count, rounds=rounds)
    cases = {mode: f"{name} ({impl}), {NUM_ENVS} envs, {mode}" for mode in steps if mode != "bare"}
    return [Row(case, *compare(times, mode, "bare"), bar, "") for mode, case in cases.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="regular expression for the cases")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--count", type=int, default=20)
    options = parser.parse_args()
    rows: list[Row] = []
    for (name, impl), bar in CASES.items():
        if re.search(options.only, f"{name} {impl}"):
            rows += step_rows(name, impl, bar, count=options.count, rounds=options.rounds)
    print_table(rows)


if __name__ == "__main__":
    main()
