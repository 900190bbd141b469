"""Show which leaves of a Brax model act in each backend, as a Markdown table and as a picture.

    python examples/physics_leaves.py --env-name hopper

`randomization_fn` may vary the leaves of the model that `reset` or `step` reads, and each backend
reads its own. This script traces both, and looks up which float leaves their results depend on; it
runs no physics. A star after a backend means that only `reset` reads these leaves; a step uses
values that `reset` computed from them. A leaf that is read need not act in every state: a friction
acts only in a contact.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env-name", default="hopper", help="a registered Brax environment")
    text = "picture file; by default runs/physics_leaves/<env name>.png"
    parser.add_argument("--out", type=Path, help=text)
    return parser.parse_args()


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

try:
    import gymnasium as gym
    import jax
    import jax.numpy as jnp
    from matplotlib.figure import Figure

    from gymbridge import BraxVectorEnv
    from gymbridge.errors import GymbridgeError
    from gymbridge.private.jax import used_inputs
except ImportError as error:
    raise SystemExit(
        f"{error}; in a checkout of gymbridge: pip install '.[brax,examples]'"
    ) from None

BACKENDS = ("spring", "positional", "generalized", "mjx")


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


def draw(found: dict[str, tuple[str, ...]], title: str) -> Figure:
    """Draw a square where a leaf acts in a backend, a pale one where only `reset` reads it."""
    shades = [
        [(b in found[leaf]) + 0.4 * (f"{b}*" in found[leaf]) for b in BACKENDS] for leaf in found
    ]
    figure = Figure(figsize=(5, 1 + 0.18 * len(found)), layout="constrained")
    axes = figure.add_subplot(title=title)
    axes.pcolormesh(shades, cmap="Blues", vmin=0, vmax=1.2, edgecolors="white")
    axes.set_xticks([0.5 + i for i in range(len(BACKENDS))], BACKENDS)
    axes.set_yticks([0.5 + i for i in range(len(found))], list(found), fontsize=7)
    axes.xaxis.tick_top()
    axes.invert_yaxis()
    return figure


def main() -> None:
    args = parse_args()
    found = backends_by_leaf(args.env_name)
    print(to_table(found))
    path = args.out or Path("runs", "physics_leaves", f"{args.env_name}.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(dict(sorted(found.items())), f"leaves of {args.env_name}").savefig(path, dpi=120)
    print(f"\nWrote {path}")


if __name__ == "__main__":
    try:
        main()
    except (GymbridgeError, gym.error.Error) as error:
        raise SystemExit(str(error)) from None
