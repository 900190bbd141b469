"""What gymbridge gains in Stable-Baselines3 on Pong, and what ale-py's vector environment takes.

    python examples/benchmarks/atari_step.py [--rounds 9] [--updates 5]

Both sides make frames of 84 by 84 with a stack of four, clip rewards and end episodes at lost
lives. *Step* is `step` with random actions. *Update* is a whole update of SB3's PPO with its
hyperparameters for Atari: 128 steps of each game, and four epochs of training.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import ale_py
import gymnasium as gym
import numpy as np
from ale_py.vector_env import AtariVectorEnv
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_atari_env as make_sb3
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack
from timing import Row, compare, interleave, print_table

from gymbridge import EnvPoolVectorEnv
from gymbridge.trainers.sb3 import make_atari_env

gym.register_envs(ale_py)
HYPERPARAMETERS: dict[str, Any] = {
    "n_steps": 128,
    "batch_size": 256,
    "n_epochs": 4,
    "learning_rate": 2.5e-4,
    "clip_range": 0.1,
    "ent_coef": 0.01,
    "device": "cpu",
}


def make_both(num_envs: int) -> dict[str, VecEnv]:
    """Return SB3's Pong in `DummyVecEnv`, and ours."""
    theirs = VecFrameStack(make_sb3("PongNoFrameskip-v4", num_envs, seed=0), 4)
    ours = make_atari_env("EnvPool/Pong-v5", num_envs, seed=0, env_kwargs={"stack_num": 4})
    return {"SB3": theirs, "ours": ours}


def draw_actions(num_envs: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 6, (64, num_envs))


def sb3_rows(num_envs: int, rounds: int, updates: int) -> list[Row]:
    """Measure steps and updates of PPO, beside SB3's own environments."""
    actions, steps, learn = draw_actions(num_envs), {}, {}
    for name, envs in make_both(num_envs).items():
        envs.reset()
        steps[name] = lambda index, step=envs.step: step(actions[index % 64])
    step = compare(interleave(steps, count=200, rounds=rounds), "ours", "SB3")
    for name, envs in make_both(num_envs).items():
        model = PPO("CnnPolicy", envs, seed=0, **HYPERPARAMETERS)
        more = partial(model.learn, 128 * num_envs, reset_num_timesteps=False)
        learn[name] = lambda _, more=more: more()
    update = compare(interleave(learn, count=1, rounds=updates), "ours", "SB3")
    return [
        Row(f"Pong, {num_envs} envs, step, over SB3's make_atari_env", *step, None),
        Row(f"Pong, {num_envs} envs, update of PPO, over SB3's make_atari_env", *update, None),
    ]


def ale_row(num_envs: int, rounds: int) -> Row:
    """Measure our numpy batch beside ale-py's vector environment, which restarts in NextStep."""
    actions, steps = draw_actions(num_envs), {}
    both: dict[str, Any] = {
        "ale-py": AtariVectorEnv("pong", num_envs, episodic_life=True, reward_clipping=True),
        "ours": EnvPoolVectorEnv("Pong-v5", num_envs, episodic_life=True, reward_clip=True),
    }
    for name, envs in both.items():
        envs.reset(seed=0)
        steps[name] = lambda index, step=envs.step: step(actions[index % 64])
    times = interleave(steps, count=200, rounds=rounds)
    case = f"Pong, {num_envs} envs, step in NextStep, over ale-py's AtariVectorEnv"
    return Row(case, *compare(times, "ours", "ale-py"), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="rounds of 200 steps")
    parser.add_argument("--updates", type=int, default=5, help="rounds of one update of PPO")
    options = parser.parse_args()
    rows: list[Row] = []
    for num_envs in (8, 16):
        rows += sb3_rows(num_envs, options.rounds, options.updates)
        rows.append(ale_row(num_envs, options.rounds))
    print_table(rows)


if __name__ == "__main__":
    main()
