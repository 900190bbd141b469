"""What `JaxVectorEnv` costs over the suites' own steps, on their cheapest tasks, in numpy arrays.

    python examples/benchmarks/suites_step.py [--rounds 15]

The references are the suites' own jitted `vmap(step)`, as it is and with the suite's own autoreset,
with the same outputs fetched. gymnax's is measured where gymnax is installed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
from timing import Row, compare, interleave, print_table

from gymbridge import JaxEnv, JaxVectorEnv

sys.path.insert(0, str(Path(__file__).parents[1] / "suites"))

NUM_ENVS = 1024
BARS = {"step alone": None, "step with its autoreset": 1.5}

Step = Callable[[int], object]


def own_step(reset: Any, step: Any, actions: list[np.ndarray]) -> Step:
    """Return a suite's step, (key, state, action) -> (state, what is fetched), compiled."""
    keys = jax.random.split(jax.random.PRNGKey(0), NUM_ENVS)
    state, run = jax.jit(jax.vmap(reset))(keys), jax.jit(jax.vmap(step))

    def call(index: int) -> None:
        nonlocal state
        state, seen = run(keys, state, actions[index % len(actions)])
        jax.tree.map(np.array, seen)

    return call


def jumanji_steps(actions: list[np.ndarray]) -> tuple[JaxEnv, dict[str, Step]]:
    """Return 2048 and its own steps."""
    import jumanji
    from from_jumanji import FromJumanji
    from jumanji.wrappers import AutoResetWrapper

    def step(env: Any, key: Any, state: Any, action: Any) -> Any:
        state, now = env.step(state, action)
        return state, (now.observation, now.reward, now.discount, now.step_type, now.extras)

    env = jumanji.make("Game2048-v1")
    steps = {}
    for name, one in (("step alone", env), ("step with its autoreset", AutoResetWrapper(env))):
        reset = partial(lambda env, key: env.reset(key)[0], one)
        steps[name] = own_step(reset, partial(step, one), actions)
    return FromJumanji(env), steps


def gymnax_steps(actions: list[np.ndarray]) -> tuple[JaxEnv, dict[str, Step]]:
    """Return CartPole and its own steps."""
    import gymnax
    from from_gymnax import FromGymnax

    env, params = gymnax.make("CartPole-v1")

    def step(key: Any, state: Any, action: Any) -> Any:
        obs, state, reward, over, _ = env.step_env(key, state, action, params)
        return state, (obs, reward, over, env.is_truncated(state, params))

    def restarting(key: Any, state: Any, action: Any) -> Any:
        obs, state, *others, _ = env.step(key, state, action, params)
        return state, (obs, *others)

    def reset(key: Any) -> Any:
        return env.reset_env(key, params)[1]

    steps = {
        "step alone": own_step(reset, step, actions),
        "step with its autoreset": own_step(reset, restarting, actions),
    }
    return FromGymnax(env), steps


def measure(task: str, make: Any, num_actions: int, budget: dict[str, int]) -> list[Row]:
    """Return the rows of a task, in two modes over two references."""
    rng = np.random.default_rng(0)
    actions = [rng.integers(0, num_actions, NUM_ENVS, np.int32) for _ in range(16)]
    env, steps = make(actions)
    for mode in ("NextStep", "SameStep"):
        envs = JaxVectorEnv(env, NUM_ENVS, autoreset_mode=mode)
        envs.reset(seed=0)
        steps[mode] = lambda index, envs=envs: envs.step(actions[index % 16])
    times = interleave(steps, **budget)
    return [
        Row(f"{task}, {mode}, over its {name}", *compare(times, mode, name), bar)
        for mode in ("NextStep", "SameStep")
        for name, bar in BARS.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=30)
    options = parser.parse_args()
    budget = {"count": options.count, "rounds": options.rounds}
    rows = measure(f"jumanji Game2048, {NUM_ENVS} envs", jumanji_steps, 4, budget)
    if find_spec("gymnax"):
        rows += measure(f"gymnax CartPole, {NUM_ENVS} envs", gymnax_steps, 2, budget)
    print_table(rows)


if __name__ == "__main__":
    main()
