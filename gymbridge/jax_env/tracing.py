"""What tracing an environment shows without running it, and errors that name what does not fit."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space, spaces
from jax.extend.core import jaxpr_as_fun

from gymbridge.errors import EnvContractError, GymbridgeError, SimulationError
from gymbridge.private.jax import keep_constants

__all__ = [
    "KEY",
    "action_struct",
    "cast_like",
    "check_structure",
    "close",
    "is_key",
    "make_unique",
    "name_paths",
    "to_strong",
    "trace",
]

KEY = jax.ShapeDtypeStruct((2,), np.dtype("uint32"))
"""What the key of an episode looks like: that of `jax.random.PRNGKey` by JAX's defaults."""

_OTHERS = {Path(jax.__file__).parent, Path(__file__).parents[1]}
"""Folders of JAX and of gymbridge, whose lines do not show what is wrong."""


def trace(owner: str, package: str, verb: str, function: Callable[..., Any], *args: Any) -> Any:
    """Return the shapes and dtypes of what a function of an environment returns.

    `owner` is what the function belongs to, such as "the Brax environment Ant", and `verb` its name
    in errors. `package` is the engine's, whose releases may not fit that of JAX; "" for none.

    Raises:
        SimulationError: The function fails while it is traced; the message has file and line, if
            the function was entered.
    """
    try:
        return jax.eval_shape(function, *args)
    except GymbridgeError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if _OTHERS.isdisjoint(Path(frame.filename).parents)]
        path, place, advice = Path(), "it", ""
        if own:
            path = Path(own[-1].filename)
            place = f"{path.parent.name}/{path.name}, line {own[-1].lineno},"
        if package in path.parts and "unexpected keyword" in str(error):
            advice = (
                f". This line of {package} does not fit this release of JAX. Correct it in a "
                "subclass, or install another release of either."
            )
        raise SimulationError(
            f"`{verb}` of {owner} cannot be traced with jax {jax.__version__}; "
            f"{place} raised {type(error).__name__}: {error}{advice}"
        ) from error


def close(function: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """Return a function as it is traced now; a call runs this trace and not the function.

    Nothing that changes later has an effect: attributes that the function reads, numpy arrays that
    are written into, a function that is put in its place, and settings of JAX for traces. A
    `jax.custom_vjp` rule is still called when a gradient is traced. A function that `jax.jit` has
    traced for arguments like these is not run again.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
    keep_constants(closed)
    structure, run = jax.tree.structure(shapes), jaxpr_as_fun(closed)
    return lambda *given: jax.tree.unflatten(structure, run(*jax.tree.leaves(given)))


def check_structure(name: str, before: Any, after: Any, verbs: tuple[str, str]) -> None:
    """Raise unless two trees of shapes, which `verbs` returned, agree, None included."""
    here, there = _leaves(before), _leaves(after)
    if missing := sorted(here.keys() ^ there.keys()):
        side = verbs[0] if missing[0] in here else verbs[1]
        raise EnvContractError(
            f"{_join(verbs)} must return the same structure, but `{name}{missing[0]}` comes "
            f"from `{side}` alone."
        )
    for path, leaf in here.items():
        other = there[path]
        if (leaf.shape, leaf.dtype) != (other.shape, other.dtype):
            raise EnvContractError(
                f"{_join(verbs)} must agree in shape and dtype, but `{name}{path}` is "
                f"{leaf.dtype}{list(leaf.shape)} after `{verbs[0]}` and {other.dtype}"
                f"{list(other.shape)} after `{verbs[1]}`."
            )
    first, second = jax.tree.structure(before), jax.tree.structure(after)
    if first != second:
        raise EnvContractError(
            f"{_join(verbs)} must return the same structure, containers and None included, but "
            f"`{name}` is {first} after `{verbs[0]}` and {second} after `{verbs[1]}`."
        )


def action_struct(space: Space[Any]) -> Any:
    """Return the shapes and dtypes of one action or observation, as JAX has them."""
    if isinstance(space, spaces.Dict):
        return {key: action_struct(sub) for key, sub in space.spaces.items()}
    like: Any = space  # one of `ARRAY_SPACES`
    return jax.eval_shape(lambda: jnp.asarray(np.zeros(like.shape, like.dtype)))


def name_paths(tree: Any) -> list[str]:
    """Return the path of each leaf of a tree, whose levels are joined by dots."""
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]


def make_unique(names: list[str]) -> list[str]:
    """Return the names with a number behind those that come again."""
    found: list[str] = []
    for name in names:
        others = (f"{name} ({count})" for count in itertools.count(2))
        free = (other for other in others if other not in {*names, *found})
        found.append(name if name not in found else next(free))
    return found


def is_key(leaf: Any) -> bool:
    """Return whether an array, or what stands for one in a trace, is a typed PRNG key."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def to_strong(shapes: Any) -> Any:
    """Return a tree of shapes and dtypes without weak types."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), shapes)


def cast_like(tree: Any, like: Any) -> Any:
    """Return a tree of arrays or numbers with the dtypes of another, and without weak types.

    A weakly typed leaf, such as a Python float, would make JAX trace the step a second time.
    """
    return jax.tree.map(
        lambda leaf, wanted: leaf if is_key(wanted) else jnp.asarray(leaf, wanted.dtype),
        tree,
        like,
    )


def _join(verbs: tuple[str, str]) -> str:
    return " and ".join(f"`{verb}`" for verb in verbs)


def _leaves(tree: Any) -> dict[str, Any]:
    return {
        jax.tree_util.keystr(path): leaf
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    }
