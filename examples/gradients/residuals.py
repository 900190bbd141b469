"""How much memory a step keeps for its backward pass, per environment.

    python examples/gradients/residuals.py --tasks ant/spring G1JoystickFlatTerrain/playground

Steps are traced and not compiled. Beside what a step keeps by default stand what it keeps with
``mjx_solver_gradient="implicit"`` and with ``residuals="recompute"``, which is the state.

Needs: pip install '.[brax,playground,examples]'.
"""

import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import tyro
from engines import make_env, uses_mjx

from gymbridge.private.mjx import SolverGradient

TASKS = (
    *("inverted_pendulum/generalized", "reacher/spring", "ant/spring"),
    *("inverted_pendulum/mjx", "reacher/mjx", "halfcheetah/mjx", "hopper/mjx"),
    *("CartpoleSwingup/playground", "CheetahRun/playground", "PandaPickCube/playground"),
    *("Go1JoystickFlatTerrain/playground", "G1JoystickFlatTerrain/playground"),
)
MODES = ("auto", "implicit")
WINDOW = 16


def count_bytes(env: Any, mode: str, num_envs: int) -> tuple[int, int]:
    """Return what a step of a batch keeps, and the size of its state."""
    keys = jax.ShapeDtypeStruct((num_envs, 2), jnp.uint32)
    state = jax.eval_shape(jax.vmap(env.reset), keys)
    action = jax.ShapeDtypeStruct((num_envs, env.action_size), float)
    step = jax.vmap(SolverGradient(mode).wrap(env.step))
    kept = jax.eval_shape(lambda *given: jax.vjp(step, *given)[1], state, action)
    sizes = [
        sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
        for tree in (kept, state)
    ]
    return sizes[0], sizes[1]


def measure(task: str) -> dict[str, float]:
    """Return the megabytes that a step keeps, and those of its state, per environment."""
    name, backend = task.split("/")
    env: Any = make_env(name, backend)
    found = {}
    for mode in MODES if uses_mjx(backend) else MODES[:1]:
        # What all environments share is in both sizes.
        pairs = zip(*(count_bytes(env, mode, size) for size in (3, 2)), strict=True)
        found[mode], found["recompute"] = ((more - less) / 1e6 for more, less in pairs)
    return found


def main(tasks: tuple[str, ...] = TASKS) -> None:
    """Print a table.

    Args:
        tasks: Names and backends, such as hopper/mjx.
    """
    warnings.filterwarnings("ignore", message="Brax System")
    print(
        "| task | a step keeps | with `implicit` | with `recompute` "
        f"| environments per GB in a window of {WINDOW} steps |\n|---|---:|---:|---:|---:|"
    )
    for task in tasks:
        found = measure(task)
        cells = [f"{found[key]:.3g} MB" if key in found else "" for key in (*MODES, "recompute")]
        room = math.floor(1e3 / (WINDOW * found["auto"]))
        print(f"| {task} | {' | '.join(cells)} | {room:,} |", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
