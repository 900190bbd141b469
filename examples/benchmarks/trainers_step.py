"""What the views for TorchRL and rsl_rl cost over our own torch step and over TorchRL's wrappers.

    python examples/benchmarks/trainers_step.py [--rounds 9] [--steps 100]

Both sides of a row take the same number of steps with random actions.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import torch
from brax import envs as brax_envs
from timing import Row, compare, interleave, print_table
from torchrl.envs import BraxWrapper, GymWrapper

from gymbridge.trainers.rsl_rl import RslRlVecEnv
from gymbridge.trainers.torchrl import make_torchrl

logging.disable(logging.INFO)
warnings.filterwarnings("ignore")

Step = Callable[[int], object]


def rollout_of(env: Any, num_steps: int) -> Step:
    env.set_seed(0)
    options = {"break_when_any_done": False}
    return lambda _: env.rollout(num_steps, **options)


def loop_of(env: Any, num_steps: int) -> Step:
    """Return as many steps of the batch itself, which draws its actions and resets what ended."""
    envs, draw = env.envs, env.full_action_spec["action"].rand

    def run(_: int) -> None:
        envs.reset()
        for _ in range(num_steps):
            _, _, terminations, truncations, _ = envs.step(draw())
            if bool((ended := terminations | truncations).any()):
                envs.reset(options={"reset_mask": ended})

    return run


def brax_rows(rounds: int, num_steps: int) -> list[Row]:
    """Measure rollouts of the inverted pendulum."""
    options: dict[str, Any] = {"backend": "generalized"}
    env = make_torchrl("Brax/inverted_pendulum-v0", 256, **options)
    brax_env = brax_envs.get_environment("inverted_pendulum", **options)
    theirs = BraxWrapper(brax_env, batch_size=[256], device=env.device)
    case = f"inverted_pendulum generalized, 256 envs, rollout of {num_steps} steps"
    steps = {"view": rollout_of(env, num_steps), "step": loop_of(env, num_steps)}
    times = interleave(steps, count=1, rounds=rounds)
    rows = [Row(f"{case}, over our step in a loop", *compare(times, "view", "step"), 1.50)]
    # After our rounds: TorchRL's wrapper clears all that JAX compiled, every 20 steps.
    taken = rows[0].microseconds
    [theirs_taken] = interleave(
        {"TorchRL": rollout_of(theirs, num_steps)}, count=1, rounds=1
    ).values()
    ratio = taken / theirs_taken[0]
    note = f"{1 / ratio:.0f} times its steps/s"
    return [*rows, Row(f"{case}, over TorchRL's BraxWrapper", taken, ratio, 0.05, note)]


def pong_row(rounds: int, num_steps: int) -> Row:
    """Measure rollouts of Pong."""
    env = make_torchrl("EnvPool/Pong-v5", 8)
    batch = gym.make_vec("EnvPool/Pong-v5", num_envs=8, autoreset_mode="Disabled")
    both = {"view": env, "GymWrapper": GymWrapper(batch)}
    steps = {name: rollout_of(each, num_steps) for name, each in both.items()}
    times = interleave(steps, count=1, rounds=rounds)
    case = f"Pong-v5, 8 envs, rollout of {num_steps} steps, over GymWrapper of a numpy batch"
    return Row(case, *compare(times, "view", "GymWrapper"), 1.05)


def rsl_rl_row(rounds: int) -> Row:
    """Measure single steps of HalfCheetah."""
    options: dict[str, Any] = {"autoreset_mode": "SameStep", "arrays": "torch"}
    view = RslRlVecEnv(gym.make_vec("EnvPool/HalfCheetah-v4", num_envs=64, **options))
    envs = gym.make_vec("EnvPool/HalfCheetah-v4", num_envs=64, **options)
    envs.reset()
    actions = [torch.rand(64, 6) * 2 - 1 for _ in range(64)]
    steps: dict[str, Step] = {
        "view": lambda index: view.step(actions[index % 64]),
        "step": lambda index: envs.step(actions[index % 64]),
    }
    times = interleave(steps, count=200, rounds=rounds)
    taken = compare(times, "view", "step")
    more = taken.microseconds * (1 - 1 / taken.ratio.value)
    return Row(
        "HalfCheetah-v4, 64 envs, RslRlVecEnv.step over our step", *taken, 1.10, f"+{more:.0f} us"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=100, help="steps of a rollout of TorchRL")
    args = parser.parse_args()
    torch.manual_seed(0)
    rows = brax_rows(args.rounds, args.steps)
    # EnvPool's rounds are quick, and noisy.
    rows += [pong_row(5 * args.rounds, args.steps), rsl_rl_row(5 * args.rounds)]
    print_table(rows)


if __name__ == "__main__":
    main()
