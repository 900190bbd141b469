"""Options of `reset` that a `JaxEnv` declares."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.vector.utils import batch_space

from gymbridge.core.requests import read_array
from gymbridge.core.spaces import ARRAY_SPACES, cast_space
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.functional.protocol import action_struct
from gymbridge.jax_env.checks import check_range, read_mapping
from gymbridge.jax_env.env import JaxEnv

__all__ = ["read_reset_options"]

Reader = Callable[[Any, np.ndarray], np.ndarray]


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
