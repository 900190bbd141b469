"""Where does a robot differ from plain Playground in float64, and does plain Playground jump there?

    python docs/scripts/robot_jumps.py Go1Getup

32 environments take 110 random steps in SameStep, in episodes of at most 50 steps, beside the
reference of `robots.py`. At the first step that differs by more than 1e-6, the reference repeats
that step from 32 copies of its own state, moved by some 1e-13. If it returns the batch's value as
well as its own, its step is not continuous there. Which step this is depends on rounding, and so on
the processor. LLVM's optimisations are off, so that it compiles in half of the time. Robots on
height fields run much faster with them: `JAX_DISABLE_MOST_OPTIMIZATIONS=0`.
"""

from __future__ import annotations

import os

os.environ["JAX_ENABLE_X64"] = "1"
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import argparse
from functools import partial
from typing import Any

import jax
import numpy as np
import robots

from gymbridge import PlaygroundVectorEnv

SIZE, LARGEST, MOVED = 32, 1e-6, 1e-13


def flatten(obs: Any) -> np.ndarray:
    """Return observations as one array, (SIZE, count)."""
    return np.concatenate([leaf.reshape(SIZE, -1) for leaf in jax.tree.leaves(obs)], 1)


def put(row: int, leaf: np.ndarray, value: np.ndarray) -> None:
    """Write an environment's observation into those of the batch."""
    leaf[row] = value


def find_jump(envs: Any, plain: robots.Plain) -> None:
    """Print the largest difference of all steps, and what the reference does at the first jump."""
    envs.action_space.seed(0)
    envs.reset(seed=0)
    plain.begin()
    worst, jump = np.zeros(SIZE), None
    for _ in range(robots.STEPS):
        before, actions = plain.state, envs.action_space.sample()
        obs, _, *flags, infos = envs.step(actions)
        plain.step(actions, np.zeros(SIZE, bool))
        if (over := flags[0] | flags[1]).any():
            for row in np.flatnonzero(over):
                jax.tree.map(partial(put, row), obs, infos["final_obs"][row])
        found, wanted = flatten(obs), flatten(plain.obs)
        gap = np.abs(found - wanted) / np.maximum(1, np.abs(wanted))
        worst = np.maximum(worst, gap.max(1))
        if jump is None and gap.max() > LARGEST:
            jump = np.unravel_index(gap.argmax(), gap.shape)
            values = found[jump], wanted[jump]
            moved = move(plain, before, actions, *jump)
        plain.restart(over)
    print(f"Environments that differ by more than {LARGEST}: {(worst > LARGEST).sum()} of {SIZE}.")
    print(f"Largest difference of an observation: {worst.max():.1e}.")
    if jump is not None:
        print("First jump: {:.4f} in the batch, {:.4f} in the reference.".format(*values))
        print(f"The reference, moved by {MOVED}: from {moved.min():.4f} to {moved.max():.4f}.")


def move(plain: robots.Plain, before: Any, actions: Any, row: int, column: int) -> np.ndarray:
    """Return an entry of the reference's observation after steps from copies that are moved."""
    state = jax.tree.map(lambda leaf: np.broadcast_to(leaf[row], leaf.shape), before)
    noise = np.random.default_rng(0).standard_normal(state.data.qpos.shape)
    data = state.data.replace(qpos=state.data.qpos * (1 + MOVED * noise))
    actions = np.broadcast_to(actions[row], actions.shape)
    return flatten(plain._step(state.replace(data=data), actions).obs)[:, column]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", choices=robots.ROBOTS, metavar="NAME", help="of the robot")
    name = parser.parse_args().name
    robots.SIZE = SIZE
    options = {"max_episode_steps": robots.LIMIT, "autoreset_mode": "SameStep"}
    envs = PlaygroundVectorEnv(name, SIZE, **options)
    find_jump(envs, robots.make_plain(envs))


if __name__ == "__main__":
    main()
