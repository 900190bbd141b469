"""Show which leaves of a Brax model act in each backend, as a Markdown table.

    python examples/physics_leaves.py --env-name hopper

`randomization_fn` may vary the leaves of the model that `reset` or `step` reads, and each backend
reads its own. This script traces both, and looks up which float leaves their results depend on; it
runs no physics. A star after a backend means that only `reset` reads these leaves; a step uses
values that `reset` computed from them. A leaf that is read need not act in every state: a friction
acts only in a contact.

Needs: pip install '.[brax,examples]'.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import tyro

from gymbridge import BraxVectorEnv
from gymbridge.private.jax import used_inputs

BACKENDS = ("spring", "positional", "generalized", "mjx")


@dataclass
class Args:
    """Print a table of the leaves of a model."""

    env_name: str = "hopper"
    """A registered environment of Brax."""


def acting_leaves(env: Any, attribute: str = "sys") -> dict[str, bool]:
    """Return the float leaves that `reset` or `step` of `env` reads, and whether `step` does.

    Args:
        env: A `brax.envs.Env`, or an `MjxEnv` of Playground.
        attribute: The attribute that holds its model: "sys" in Brax, "_mjx_model" in Playground.
    """
    env = env.unwrapped
    model = getattr(env, attribute)
    named, structure = jax.tree_util.tree_flatten_with_path(model)
    leaves = {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in named}
    floats = {name: leaf for name, leaf in leaves.items() if is_float(leaf)}

    def run(function: Callable[..., Any], physics: dict[str, jax.Array], *args: Any) -> Any:
        setattr(env, attribute, jax.tree.unflatten(structure, (leaves | physics).values()))
        try:
            return function(*args)
        finally:
            setattr(env, attribute, model)

    key, action = jax.random.PRNGKey(0), jnp.zeros(env.action_size)
    in_reset = used_inputs(partial(run, env.reset), floats, key)[0]
    state = jax.eval_shape(env.reset, key)
    in_step = used_inputs(partial(run, env.step), floats, state, action)[0]
    return {name: in_step[name] for name in floats if in_reset[name] or in_step[name]}


def is_float(leaf: Any) -> bool:
    return jnp.size(leaf) > 0 and jnp.issubdtype(jnp.result_type(leaf), jnp.floating)


def backends_by_leaf(env_name: str) -> dict[str, tuple[str, ...]]:
    """Return the backends in which each leaf acts, with a star where only `reset` reads it."""
    found: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for backend in BACKENDS:
        env = BraxVectorEnv(env_name, backend=backend).get_attr("unwrapped")[0]
        for name, is_in_step in acting_leaves(env).items():
            found[name] += (backend + "*" * (not is_in_step),)
    return found


def to_table(found: dict[str, tuple[str, ...]]) -> str:
    """Return one line per set of backends, with the leaves that act in exactly these."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, backends in sorted(found.items()):
        groups[backends].append(f"`{name}`")
    rows = sorted(groups.items(), key=lambda row: (-len(row[0]), row[0]))
    lines = [f"| {', '.join(backends)} | {', '.join(names)} |" for backends, names in rows]
    return "\n".join(["| backend | leaves |", "|---|---|", *lines])


def main(args: Args) -> None:
    print(to_table(backends_by_leaf(args.env_name)))


if __name__ == "__main__":
    main(tyro.cli(Args))
