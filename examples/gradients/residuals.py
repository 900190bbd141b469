"""How much memory a step through MJX keeps for its backward pass, per environment.

    python examples/gradients/residuals.py [G1JoystickFlatTerrain/playground hopper/mjx …]

Steps are traced and not compiled. ``residuals="recompute"`` keeps the state instead, which is the
column on the right.
"""

from __future__ import annotations

import argparse
import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
from engines import make_env

from gymbridge.state_envs.mjx_private import SolverGradient

NUM_ENVS = 2
TASKS = ("hopper/mjx", "CheetahRun/playground", "G1JoystickFlatTerrain/playground")


def count_megabytes(tree: Any) -> float:
    """Return the megabytes of a tree of shapes, per environment."""
    leaves = jax.tree.leaves(tree)
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves) / NUM_ENVS / 1e6


def measure(task: str) -> list[float]:
    """Return the megabytes that a step keeps: "unroll", "implicit", and its state alone."""
    env: Any = make_env(*task.split("/"))
    keys = jax.ShapeDtypeStruct((NUM_ENVS, 2), jnp.uint32)
    state = jax.eval_shape(jax.vmap(env.reset), keys)
    action = jax.ShapeDtypeStruct((NUM_ENVS, env.action_size), float)
    found = []
    for mode in ("unroll", "implicit"):
        step = jax.vmap(SolverGradient(mode).wrap(env.step))
        kept = jax.eval_shape(lambda *given, step=step: jax.vjp(step, *given)[1], state, action)
        found.append(count_megabytes(kept))
    return [*found, count_megabytes(state)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=TASKS, help="such as hopper/mjx")
    warnings.filterwarnings("ignore", message="Brax System")
    print("| task | unroll | implicit | recompute |\n|---|---:|---:|---:|")
    for task in parser.parse_args().tasks:
        cells = (f"{size:.2f} MB" for size in measure(task))
        print(f"| {task} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
