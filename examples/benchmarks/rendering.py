"""What frames cost, and what `render_mode` costs a step that draws none.

    python examples/benchmarks/rendering.py [--rounds 9]

Frames need OpenGL; see docs/how-to/rendering.md. Brax's own function uses the library that mujoco
chooses by MUJOCO_GL; the script sets it to the library that gymbridge would use.
"""

from __future__ import annotations

import argparse
import os
import warnings
from types import SimpleNamespace
from typing import Any

from gymbridge.core.opengl import find_library

os.environ.setdefault("MUJOCO_GL", "egl" if find_library("egl") else "osmesa")

import gymnasium as gym
import numpy as np
from brax.io.image import render_array
from timing import Row, compare, interleave, print_table

from gymbridge import BraxVectorEnv

warnings.filterwarnings("ignore", message="Brax System")


def step_row(env_id: str, num_envs: int, rounds: int, count: int, **kwargs: Any) -> Row:
    """Time a step of a batch that could be drawn, over one that could not."""
    batches: dict[str, Any] = {
        "drawable": gym.make_vec(env_id, num_envs=num_envs, render_mode="rgb_array", **kwargs),
        "plain": gym.make_vec(env_id, num_envs=num_envs, **kwargs),
    }
    actions = batches["plain"].action_space.sample()
    for envs in batches.values():
        envs.reset(seed=0)
    steps = {name: lambda _, envs=envs: envs.step(actions) for name, envs in batches.items()}
    taken = compare(interleave(steps, count=count, rounds=rounds), "drawable", "plain")
    case = (
        f'a step of {env_id}, {num_envs} environments, with `render_mode="rgb_array"`, over without'
    )
    return Row(case, taken.microseconds, taken.ratio, 1.05, "nothing drawn")


def frame_row(name: str, rounds: int) -> Row:
    """Time a frame of one environment, over Brax's own function."""
    options = {"backend": "spring", "render_mode": "rgb_array", "camera": -1}
    envs = BraxVectorEnv(name, **options)
    envs.reset(seed=0)
    leaves, system = envs.get_state().leaves, envs.call("sys")[0]
    positions = {
        name: np.asarray(leaves[f"state.pipeline_state.{name}"])[0] for name in ("q", "qd")
    }
    state = SimpleNamespace(**positions)
    draw = {"ours": lambda _: envs.render()[0], "brax's": lambda _: render_array(system, state)}
    assert np.array_equal(draw["ours"](0), draw["brax's"](0))
    taken = compare(interleave(draw, count=3, rounds=rounds), "ours", "brax's")
    case = f"a frame of {name}, 320 x 240, over `brax.io.image.render_array`"
    return Row(case, taken.microseconds, taken.ratio, 1.0, os.environ["MUJOCO_GL"])


def main() -> None:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each measurement")
    rounds = parser.parse_args().rounds
    rows = [
        step_row("EnvPool/CartPole-v1", 64, rounds, 2000),
        step_row("Brax/inverted_pendulum-v0", 64, rounds, 300, backend="spring"),
        frame_row("inverted_pendulum", rounds),
        frame_row("ant", rounds),
    ]
    print_table(rows)


if __name__ == "__main__":
    main()
