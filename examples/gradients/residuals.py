"""How much memory a differentiable step keeps for its backward pass, per environment.

    python examples/gradients/residuals.py [G1JoystickFlatTerrain/playground hopper/mjx …]

Steps are traced and not compiled, so this takes seconds per task. ``residuals="recompute"`` keeps
the state and the action instead, which is the column on the right.
"""

from __future__ import annotations

import argparse
import math
import warnings
from typing import Any

import jax
from engines import make_env
from gymnasium.vector import AutoresetMode

from gymbridge import BraxVectorEnv, PlaygroundVectorEnv
from gymbridge.core.episode import Seeds

NUM_ENVS = 2
TASKS = ("reacher/mjx", "hopper/mjx", "CheetahRun/playground", "G1JoystickFlatTerrain/playground")


def count_bytes(tree: Any) -> int:
    """Return the bytes of a tree of shapes, per environment."""
    leaves = jax.tree.leaves(tree)
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves) // NUM_ENVS


def measure(task: str, mode: str) -> tuple[int, int]:
    """Return the bytes that a step keeps, and those of state and action."""
    name, backend = task.split("/")
    make = PlaygroundVectorEnv if backend == "playground" else BraxVectorEnv
    options = {"arrays": "torch", "differentiable": True, "mjx_solver_gradient": mode}
    envs: Any = make(
        make_env(name, backend), NUM_ENVS, autoreset_mode=AutoresetMode.DISABLED, **options
    )
    runner = envs._runner
    mask = jax.ShapeDtypeStruct((NUM_ENVS,), bool)
    seeds = jax.ShapeDtypeStruct((NUM_ENVS,), "uint32")
    packed, rest, _ = jax.eval_shape(runner._first_reset, mask, Seeds(seeds, mask))
    action = jax.ShapeDtypeStruct(envs.action_space.shape, envs.action_space.dtype)
    given = ((packed, action), (rest, None))
    *_, kept = jax.eval_shape(runner._step_graph.record, *given)
    return count_bytes(kept), count_bytes(given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=TASKS, help="such as hopper/mjx")
    warnings.filterwarnings("ignore", message="Brax System")
    print("| task | unroll | implicit | recompute |\n|---|---:|---:|---:|")
    for task in parser.parse_args().tasks:
        (unroll, state), (implicit, _) = measure(task, "unroll"), measure(task, "implicit")
        print(
            f"| {task} | {unroll / 1e6:.2f} MB | {implicit / 1e6:.2f} MB | {state / 1e6:.2f} MB |"
        )


if __name__ == "__main__":
    main()
