"""What a step of the Stable-Baselines3 view costs, over our own step and over `DummyVecEnv`.

    python examples/benchmarks/sb3_step.py [--rounds 15]

All rows step CartPole. With random actions, episodes end in nearly every step of 64 environments;
with *the pole kept up*, as by a trained policy, few end. A bar of 0.33 is three times the
environment steps per second. *Pool alone* is the least that any view of EnvPool costs with random
actions: the restart of three environments and a step of all, without any other code.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import envpool
import gymnasium as gym
import numpy as np
from stable_baselines3.common.env_util import make_vec_env as make_sb3
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
from timing import Row, compare, interleave, print_table

from gymbridge import EnvPoolVectorEnv
from gymbridge.trainers.sb3 import Sb3VecEnv, make_vec_env

TASK, ENV_ID, REFERENCE_ID = "CartPole-v1", "EnvPool/CartPole-v1", "CartPole-v1"

Batch = Any
Cases = dict[str, Callable[[int], Batch]]


def make_batch(num_envs: int) -> EnvPoolVectorEnv:
    return EnvPoolVectorEnv(TASK, num_envs, autoreset_mode="SameStep")


def make_view(num_envs: int) -> Sb3VecEnv:
    return Sb3VecEnv(make_batch(num_envs))


def make_dummy(num_envs: int) -> DummyVecEnv:
    return DummyVecEnv([lambda: gym.make(REFERENCE_ID)] * num_envs)


class BarePool:
    """EnvPool's own step, and the restart of three environments that SameStep needs beside it."""

    def __init__(self, num_envs: int) -> None:
        self._few = np.arange(3, dtype=np.int32)  # as many end in a step of 64 random environments
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._pool: Any = envpool.make_gymnasium(TASK, num_envs=num_envs, num_threads=1)

    def reset(self) -> None:
        """Begin everywhere."""
        self._pool.reset()

    def step(self, actions: np.ndarray) -> None:
        """Restart three and step all."""
        self._pool.step(actions)
        self._pool.reset(self._few)


class Steered:
    """A `VecEnv` whose actions keep the pole up."""

    def __init__(self, envs: VecEnv) -> None:
        self._envs = envs

    def reset(self) -> None:
        """Begin everywhere."""
        self._obs = self._envs.reset()

    def step(self, _: np.ndarray) -> None:
        """Push the cart to where the pole falls."""
        angles, speeds = self._obs[:, 2], self._obs[:, 3]
        self._obs, *_ = self._envs.step((angles + 0.5 * speeds > 0).astype(np.int64))


CASES: tuple[tuple[str, Cases, float | None], ...] = (
    ("view over our step", {"reference": make_batch, "view": make_view}, 2.0),
    ("view over DummyVecEnv", {"reference": make_dummy, "view": make_view}, 1 / 3),
    (
        "view over DummyVecEnv, the pole kept up",
        {
            "reference": lambda num_envs: Steered(make_dummy(num_envs)),
            "view": lambda num_envs: Steered(make_view(num_envs)),
        },
        1 / 3,
    ),
    ("pool alone over DummyVecEnv", {"reference": make_dummy, "view": BarePool}, None),
    (
        "make_vec_env over SB3's, monitors and all",
        {
            "reference": lambda num_envs: make_sb3(REFERENCE_ID, num_envs),
            "view": lambda num_envs: make_vec_env(ENV_ID, num_envs),
        },
        None,
    ),
)
"""Name, what is compared, and the bar of the time over the reference's."""


def measure(name: str, cases: Cases, bar: float | None, num_envs: int, rounds: int) -> Row:
    """Measure the view against its reference, with the same actions."""
    actions = np.random.default_rng(0).integers(0, 2, (64, num_envs))
    steps = {}
    for case, make in cases.items():
        envs = make(num_envs)
        envs.reset()
        steps[case] = lambda index, step=envs.step: step(actions[index % 64])
    times = interleave(steps, count=200, rounds=rounds)
    taken = compare(times, "view", "reference")
    speed = 1 / taken.ratio.value
    note = f"reference {median(times['reference']):.0f} us, {speed:.2f} times its steps/s"
    return Row(f"{num_envs} envs, {name}", *taken, bar, note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    rows = [
        measure(name, cases, bar if num_envs == 64 else None, num_envs, options.rounds)
        for num_envs in (8, 64)
        for name, cases, bar in CASES
    ]
    print_table(rows)


if __name__ == "__main__":
    main()
