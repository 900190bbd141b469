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
import numpy as np
import tyro
from engines import make_env, uses_mjx

from gymbridge.private.mjx import SolverGradient

TASKS = (
    *("inverted_pendulum/generalized", "reacher/spring", "ant/spring"),
    *("inverted_pendulum/mjx", "reacher/mjx", "halfcheetah/mjx", "hopper/mjx"),
    *("CartpoleSwingup/playground", "CheetahRun/playground", "PandaPickCube/playground"),
    *("Go1JoystickFlatTerrain/playground", "G1JoystickFlatTerrain/playground"),
)
WINDOW = 16


def count_bytes(tree: Any) -> int:
    """Return the size of all arrays."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def measure(env: Any, mode: str) -> np.ndarray:
    """Return the megabytes that a step keeps, and those of its state, per environment: (2,)."""
    step, sizes = jax.vmap(SolverGradient(mode).wrap(env.step)), []
    for num_envs in (2, 3):
        keys = jax.ShapeDtypeStruct((num_envs, 2), jnp.uint32)
        state = jax.eval_shape(jax.vmap(env.reset), keys)
        action = jax.ShapeDtypeStruct((num_envs, env.action_size), float)
        kept = jax.eval_shape(lambda *given: jax.vjp(step, *given)[1], state, action)
        sizes.append([count_bytes(kept), count_bytes(state)])
    # What all environments share is in both sizes.
    return np.diff(sizes, axis=0)[0] / 1e6


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
        name, backend = task.split("/")
        env = make_env(name, backend)
        kept, state = measure(env, "auto")
        implicit = f"{measure(env, 'implicit')[0]:.3g} MB" if uses_mjx(backend) else ""
        room = math.floor(1e3 / (WINDOW * kept))
        print(f"| {task} | {kept:.3g} MB | {implicit} | {state:.3g} MB | {room:,} |", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
