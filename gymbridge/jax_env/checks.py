"""What a `JaxEnv` may declare and return; errors name the leaf that breaks a rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space, spaces

from gymbridge.core.infos import RESERVED_INFOS
from gymbridge.core.spaces import ARRAY_SPACES, space_leaves
from gymbridge.errors import ArgumentError, ArgumentTypeError, EnvContractError, nearest
from gymbridge.jax_env.env import JaxEnv
from gymbridge.jax_env.tracing import action_struct, check_structure

__all__ = [
    "check_carried",
    "check_float_actions",
    "check_infos",
    "check_observation",
    "check_range",
    "check_scalars",
    "check_summed",
    "index",
    "read_mapping",
    "read_space",
    "to_plain",
    "unpack",
]

Infos = dict[str, Any]
"""Shapes and dtypes of infos, or their defaults, by name; nested dicts stay nested."""


def read_space(env: JaxEnv, name: str, env_name: str) -> Space[Any]:
    """Return a space that an environment declares."""
    space = getattr(env, name, None)
    label = f"`{name}` of {env_name}"
    if not isinstance(space, Space):
        raise ArgumentTypeError(f"{label} must be a gymnasium.Space, got {space!r}.")
    for leaf in space_leaves(space):
        if not isinstance(leaf, ARRAY_SPACES):
            raise ArgumentTypeError(
                f"{label} must be Box, Discrete, MultiDiscrete, MultiBinary or a Dict of such, got "
                f"{space}."
            )
        check_range(label, leaf)
    return space


def check_float_actions(user: str, space: Space[Any]) -> None:
    """Raise `EnvContractError` unless all actions are floats, as `user` needs them."""
    structs = jax.tree.leaves(action_struct(space))
    if not all(jnp.issubdtype(struct.dtype, jnp.floating) for struct in structs):
        raise EnvContractError(f"`{user}` needs actions that are floats, got {space}.")


def check_range(label: str, space: Space[Any]) -> None:
    """Raise unless JAX's integers, which may have 32 bits, reach those of a discrete space."""
    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return
    start = np.asarray(space.start).astype(object)
    count = space.n if isinstance(space, spaces.Discrete) else space.nvec
    limits = np.iinfo(jax.dtypes.canonicalize_dtype(space.dtype))
    if np.min(start) < limits.min or np.max(start + count - 1) > limits.max:
        raise ArgumentError(
            f"{label} must have integers from {limits.min} to {limits.max}, which are JAX's "
            f"{limits.dtype}, got {space}; `jax.config.update('jax_enable_x64', True)` has more."
        )


def read_mapping(env: JaxEnv, name: str) -> Mapping[str, Any]:
    """Return an attribute of an environment that has values by name."""
    found = getattr(env, name)
    if not isinstance(found, Mapping):
        raise ArgumentTypeError(f"`{type(env).__name__}.{name}` must be a dict, got {found!r}.")
    return found


def unpack(verb: str, returned: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return what a method returned, with its infos in plain dicts."""
    if not isinstance(returned, tuple) or len(returned) != len(names):
        got = f"{len(returned)} values" if isinstance(returned, tuple) else type(returned).__name__
        raise EnvContractError(f"`{verb}` must return ({', '.join(names)}), got {got}.")
    for name, value in zip(names, returned, strict=True):
        _check_arrays(name, value, verb)
    *others, info = returned
    if not isinstance(info, Mapping):
        raise EnvContractError(
            f"`info` of `{verb}` must be a dict, got {type(info).__name__}; without infos, {{}}."
        )
    return *others, to_plain(info)


def _check_arrays(name: str, tree: Any, verb: str) -> None:
    """Raise unless all leaves of a tree are arrays or numbers."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if not isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float | complex):
            raise EnvContractError(
                f"`{name}{jax.tree_util.keystr(path)}` of `{verb}` must be an array or a pytree of "
                f"arrays, got {type(leaf).__name__}. Keep what is no array as an attribute of the "
                "environment, and register your class by `jax.tree_util`."
            )


def to_plain(tree: Any) -> Any:
    """Return mappings and named tuples as plain dicts, as `spaces.Dict` batches them."""
    if hasattr(tree, "_asdict"):
        tree = tree._asdict()
    if isinstance(tree, Mapping):
        return {key: to_plain(value) for key, value in tree.items()}
    return tree


def check_observation(space: Space[Any], seen: Any, verb: str, path: str = "observation") -> None:
    """Raise unless an observation has the keys, shapes and dtypes of its space."""
    rule = f"`{path}` of `{verb}` must fit the observation space"
    if isinstance(space, spaces.Dict):
        names = list(space.spaces)
        if not isinstance(seen, dict):
            raise EnvContractError(f"{rule}, a dict of {names}, got {_show(seen)}.")
        if seen.keys() != space.spaces.keys():
            raise EnvContractError(f"{rule}, with the keys {names}, got {list(seen)}.")
        for name, sub in space.spaces.items():
            check_observation(sub, seen[name], verb, f"{path}[{name!r}]")
        return
    like = action_struct(space)
    if (getattr(seen, "shape", None), getattr(seen, "dtype", None)) != (like.shape, like.dtype):
        raise EnvContractError(f"{rule}, {_show(like)}, got {_show(seen)}.")


def check_scalars(reward: Any, terminated: Any, truncated: Any) -> Any:
    """Return the dtype of rewards, the float of JAX for numbers that are no floats."""
    is_number = getattr(reward, "shape", None) == () and _is_number(reward.dtype)
    if not is_number or jnp.issubdtype(reward.dtype, jnp.complexfloating):
        raise EnvContractError(
            f"`reward` of `step` must be a number in a single environment, got {_show(reward)}; "
            "the batch is made by JaxVectorEnv."
        )
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if getattr(flag, "shape", None) != () or flag.dtype != bool:
            raise EnvContractError(
                f"`{name}` of `step` must be a bool in a single environment, got {_show(flag)}."
            )
    # numpy has no bfloat16, so its kind is another.
    return reward.dtype if reward.dtype.kind == "f" else jax.dtypes.canonicalize_dtype(float)


def _is_number(dtype: Any) -> bool:
    """Return whether a dtype is that of numbers or bools, numpy's or of JAX alone."""
    return jnp.issubdtype(dtype, jnp.number) or jnp.issubdtype(dtype, jnp.bool_)


def check_carried(name: str, info: Any, like: Any) -> None:
    """Raise unless an info is as what is carried under its name."""
    if jax.tree.map(_show, info) != jax.tree.map(_show, like):
        raise ArgumentError(
            f"`carried[{name!r}]` must be an info that `reset` and `step` return, {_show(like)}, "
            f"got {'no such info' if info is None else _show(info)}."
        )


def check_summed(names: Any, infos: Infos) -> None:
    """Raise unless the names are those of infos that add up."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ArgumentTypeError(f"`summed_infos` must be a list of names, got {names!r}.")
    known = {
        name
        for name, info in infos.items()
        if all(leaf.dtype != bool for leaf in jax.tree.leaves(info))
    }
    if missing := [name for name in names if name not in known]:
        raise ArgumentError(
            f"`summed_infos` must name infos of numbers, got {missing[0]!r}; "
            f"{nearest(missing[0], known)}"
        )


def check_infos(begun: Infos, stepped: Infos, defaults: Mapping[str, Any]) -> tuple[Infos, Infos]:
    """Return the shapes and dtypes of all infos, and the defaults of those that have one.

    Raises:
        EnvContractError: An info is missing in one method and has no default, differs between the
            methods, or has a name or dtype that infos cannot have.
        ArgumentError: A default does not fit its info, or there is no such info.
    """
    for infos in (begun, stepped):
        _check_names(infos)
    return _merge_infos((), begun, stepped, defaults)


def _merge_infos(
    path: tuple[str, ...], begun: Infos, stepped: Infos, defaults: Mapping[str, Any]
) -> tuple[Infos, Infos]:
    """Return what `check_infos` returns for the dict of infos at a path."""
    if unknown := [name for name in defaults if name not in begun and name not in stepped]:
        raise ArgumentError(
            f"`info_defaults{index(*path, unknown[0])}` is the default of an info that neither "
            "`reset` nor `step` returns."
        )
    likes: Infos = {}
    fitted: Infos = {}
    for name in sorted({*begun, *stepped}):
        here, first, second = (*path, name), begun.get(name), stepped.get(name)
        if (first is None or second is None) and name not in defaults:
            raise _missing_info(here, *(("reset", "step") if first is None else ("step", "reset")))
        kinds = {isinstance(side, dict) for side in (first, second) if side is not None}
        if len(kinds) == 2:
            raise EnvContractError(
                f"`info{index(*here)}` is {_show(first)} after `reset` and {_show(second)} after "
                "`step`; return a dict from both, or an array."
            )
        if True in kinds:
            inner = to_plain(defaults.get(name, {}))
            if not isinstance(inner, Mapping):
                raise ArgumentError(f"`info_defaults{index(*here)}` must be a dict, got {inner!r}.")
            likes[name], fitted[name] = _merge_infos(here, first or {}, second or {}, inner)
            continue
        if first is not None and second is not None:
            check_structure(f"info{index(*here)}", first, second, ("reset", "step"))
        likes[name] = second if first is None else first
        if name in defaults:
            fitted[name] = _read_default(here, likes[name], defaults[name])
    return likes, fitted


def _missing_info(path: tuple[str, ...], lacks: str, has: str) -> EnvContractError:
    """Return the error for an info that one method lacks, with the line that declares it."""
    declared = "…"
    for name in reversed(path):
        declared = f"{{{name!r}: {declared}}}"
    return EnvContractError(
        f"`reset` and `step` must return the same infos, but `info{index(*path)}` comes from "
        f"`{has}` alone; return it from `{lacks}` too, or declare `{declared}` in `info_defaults`."
    )


def _read_default(path: tuple[str, ...], like: Any, default: Any) -> jax.Array:
    """Return the default of an info in its shape and dtype; integers and bools are exact."""
    try:
        value = np.asarray(default)
        if value.dtype.kind not in "biuf":
            raise TypeError("no real number")
        with np.errstate(invalid="ignore", over="ignore"):
            cast = value.astype(like.dtype)
        if not jnp.issubdtype(like.dtype, jnp.floating) and not np.array_equal(cast, value):
            raise ValueError("another number")
        return jnp.asarray(np.broadcast_to(cast, like.shape))
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"`info_defaults{index(*path)}` must fit the info, {_show(like)}, got {default!r}."
        ) from error


def index(*path: str) -> str:
    """Return how a value at a path is reached in nested dicts."""
    return "".join(f"[{name!r}]" for name in path)


def _check_names(infos: Infos, *path: str) -> None:
    """Raise for names that Gymnasium or the batch uses, and for values that are not numbers."""
    for name, like in infos.items():
        here = f"info{index(*path, name)}"
        if not path and (name in RESERVED_INFOS or str(name).startswith("_")):
            raise EnvContractError(
                f"`{here}` needs another name: one without a leading underscore, since masks have "
                f"such names, and none of {sorted(RESERVED_INFOS)}."
            )
        if not isinstance(name, str) or name.removeprefix("_") in infos.keys() - {name}:
            raise EnvContractError(
                f"`{here}` needs another name: a text, and not that of the mask of another info. "
                "With Brax or Playground, `info_keys` can leave it out."
            )
        if isinstance(like, dict):
            _check_names(like, *path, name)
        elif not (hasattr(like, "dtype") and _is_number(like.dtype)):
            raise EnvContractError(
                f"`{here}` must be an array of numbers or bools, got {_show(like)}."
            )


def _show(found: Any) -> str:
    """Return what was found as ``dtype[shape]``; other values by their type."""
    if hasattr(found, "dtype"):
        return f"{found.dtype}{list(found.shape)}"
    return f"{list(found)}" if isinstance(found, dict) else type(found).__name__
