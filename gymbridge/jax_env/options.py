"""Options of `reset` that a `JaxEnv` declares."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import partial
from itertools import combinations
from typing import Any

import jax
import numpy as np
from gymnasium import Space
from gymnasium.vector.utils import batch_space

from gymbridge.core.requests import read_array
from gymbridge.core.spaces import ARRAY_SPACES, cast_space
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.functional.protocol import action_struct
from gymbridge.jax_env.checks import check_range, read_mapping
from gymbridge.jax_env.env import JaxEnv

__all__ = ["given_together", "read_option_defaults", "read_reset_options"]

Reader = Callable[[Any, np.ndarray], np.ndarray]

_MOST_TRACES = 16


def read_reset_options(env: JaxEnv) -> tuple[dict[str, Reader], dict[str, Any]]:
    """Return the options that an environment declares, by their names.

    Returns:
        readers: As in `core.episode.Simulator.reset_options`.
        structs: Shape and dtype of each value.

    Raises:
        ArgumentTypeError: They are not a dict, a name is not a str, or an option has no space, or
            one of another kind.
        ArgumentError: `reset` lacks an option as a keyword argument with a default, or it has the
            name of Gymnasium's own or of `self` or `key`, or integers that JAX's do not reach.
    """
    readers, structs = {}, {}
    for name, space in read_mapping(env, "reset_options").items():
        label = f"`reset_options[{name!r}]`"
        if not isinstance(space, ARRAY_SPACES):
            raise ArgumentTypeError(
                f"{label} must be Box, Discrete, MultiDiscrete or MultiBinary, got {space!r}."
            )
        check_range(label, space)
        _check_keyword(env, name, label)
        structs[name] = like = action_struct(space)
        readers[name] = partial(_read_values, name, cast_space(space, lambda _, to=like: to.dtype))
    return readers, structs


def read_option_defaults(env: JaxEnv, structs: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the defaults of the options that have a value of their space as their default.

    Args:
        env: The environment.
        structs: Shape and dtype of each option.
    """
    parameters, options = inspect.signature(env.reset).parameters, env.reset_options
    found = {}
    for name, like in structs.items():
        default, space = parameters[name].default if name in parameters else None, options[name]
        if isinstance(default, bool | int | float | np.generic | np.ndarray | jax.Array):
            natural = np.asarray(default)
            natural = natural.astype(jax.dtypes.canonicalize_dtype(natural.dtype))
            with np.errstate(invalid="ignore", over="ignore"):
                value = natural.astype(like.dtype)
            are_bools = natural.dtype == bool, value.dtype == bool
            is_alike = natural.shape == like.shape and len({*are_bools}) == 1
            if is_alike and np.array_equal(value, natural) and _contains(space, value):
                found[name] = value
    return found


def _contains(space: Space[Any], value: np.ndarray) -> bool:
    """Return whether a space has a value in JAX's dtype."""
    return cast_space(space, lambda _: value.dtype).contains(value)


def given_together(names: Collection[str], defaults: Collection[str]) -> list[frozenset[str]]:
    """Return the sets of options for which `reset` is traced; the first one has none.

    Where some options are given, those with a value as their default are given it. What `reset`
    does with any other default, such as None, shows in a trace without the option alone.

    Args:
        names: All options.
        defaults: Those that have a value as their default.

    Raises:
        ArgumentError: There are more than 16 such sets.
    """
    others = sorted({*names} - {*defaults})
    if 2 ** len(others) > _MOST_TRACES:
        raise ArgumentError(
            f"`reset_options` may have at most 4 options whose default in `reset` is no value of "
            f"their space, got {others}. The batch traces `reset` for each choice of them, and for "
            "the others only once: give them a number or an array as default."
        )
    chosen = [
        frozenset({*some, *defaults})
        for size in range(len(others) + 1)
        for some in combinations(others, size)
    ]
    return list(dict.fromkeys([frozenset(), *chosen]))


def _check_keyword(env: JaxEnv, name: str, label: str) -> None:
    parameters = inspect.signature(env.reset).parameters
    found = parameters.get(name)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if not isinstance(name, str):
        raise ArgumentTypeError(f"{label} must have a name that is a str, got {name!r}.")
    if name in ("self", "key", *list(parameters)[:1]):
        raise ArgumentError(f"{label} needs another name: `reset` gets `self` and `key` itself.")
    if name == "reset_mask":
        raise ArgumentError(f"{label} needs another name, since Gymnasium has an option like that.")
    if found is None and not takes_any:
        raise ArgumentError(f"{label} must be a keyword argument of `reset`, which lacks it.")
    if found is not None and found.default is found.empty:
        raise ArgumentError(
            f"{label} must have a default in `reset`, as in `def reset(self, key, {name}=0)`, "
            "since a restart has no options."
        )


def _read_values(name: str, space: Space[Any], given: Any, mask: np.ndarray) -> np.ndarray:
    """Return the values of an option, (num_envs, ...).

    Raises:
        ArgumentTypeError: `given` is not an array that can be cast to the dtype of the space.
        ArgumentError: It has another shape, or a value under the mask lies outside the space.
    """
    label = f"`options[{name!r}]`"
    array = read_array(label, given, (*mask.shape, *(space.shape or ())), space.dtype)
    if not batch_space(space, int(mask.sum())).contains(array[mask]):
        raise ArgumentError(f"{label} must lie in {space} for each environment, got {array}.")
    return array
