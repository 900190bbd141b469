"""Options of `reset` that a `JaxEnv` declares, and what it carries from one episode to the next."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space
from gymnasium.vector.utils import batch_space

from gymbridge.core.requests import read_array
from gymbridge.core.spaces import ARRAY_SPACES, cast_space
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.jax_env.checks import check_range, index, read_mapping
from gymbridge.jax_env.env import JaxEnv
from gymbridge.jax_env.tracing import action_struct

__all__ = [
    "Kept",
    "Option",
    "carry_tree",
    "given_together",
    "read_carried",
    "read_reset_options",
]

_MOST_TRACES = 16


class Option(NamedTuple):
    """A keyword argument of `reset` that users set by `options`."""

    read: Callable[[Any, np.ndarray], Any]
    """As in `core.episode.Simulator.reset_options`."""
    like: Any
    """Shapes and dtypes of one environment's value, a tree."""
    default: Any = None
    """Its default in `reset`, if that is a value like these."""


class Kept(NamedTuple):
    """A value that outlives an episode."""

    value: Any
    is_given: Any  # bool; where it is False, `reset` chooses the value

    def over(self, own: Any) -> Any:
        """Return the value of one row where it is given, and otherwise its own, a tree alike."""
        return jax.tree.map(partial(jnp.where, self.is_given), self.value, own)


def read_reset_options(env: JaxEnv) -> dict[str, Option]:
    """Return the options that an environment declares, by their names."""
    declared = read_mapping(env, "reset_options")
    return {
        name: space if isinstance(space, Option) else _read_option(env, name, space)
        for name, space in declared.items()
    }


def read_carried(env: JaxEnv) -> tuple[dict[str, Option], dict[str, np.ndarray]]:
    """Return what outlives an episode as options of `reset` by name, whose values are `Kept`.

    The second dict has defaults for those that are not given, unless the environment has them.
    """
    options, defaults = {}, {}
    for name, space in read_mapping(env, "carried").items():
        if name in env.reset_options:
            raise ArgumentError(f"`carried[{name!r}]` is an option already; leave one of them out.")
        if isinstance(space, Option):
            options[name] = space
            continue
        option = _read_option(env, name, space, "carried")
        if option.default is None:
            raise ArgumentError(
                f"`carried[{name!r}]` must have a default in `reset` that is a value of {space}, "
                "with which it begins."
            )
        options[name], defaults[name] = _carry(option), option.default
    return options, defaults


def _carry(option: Option) -> Option:
    """Return an option as one whose values are `Kept`."""

    def read(given: Any, mask: np.ndarray) -> Kept:
        return Kept(option.read(given, mask), np.ones(mask.shape, np.bool_))

    blank = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), option.like)
    like = Kept(option.like, jax.ShapeDtypeStruct((), np.dtype(bool)))
    return Option(read, like, Kept(blank, np.zeros((), np.bool_)))


def carry_tree(like: Any, *path: str) -> Option:
    """Return the option at a path for nested dicts of arrays, which `reset` gets as `Kept`."""
    return _carry(Option(partial(_read_tree, path, like), like))


def _read_tree(path: tuple[str, ...], like: Any, given: Any, mask: np.ndarray) -> Any:
    """Return the values of an option, (num_envs, ...) in nested dicts."""
    label = f"`options{index(*path)}`"
    if not isinstance(like, Mapping):
        array = read_array(label, given, (*mask.shape, *like.shape), like.dtype)
        if array.dtype.kind == "f" and not np.isfinite(array[mask]).all():
            raise ArgumentError(f"{label} must be finite as {like.dtype}, got {array}.")
        return array
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(f"{label} must be a dict, got {type(given).__name__}.")
    if given.keys() != like.keys():
        raise ArgumentError(f"{label} must have the keys {sorted(like)}, got {[*given]}.")
    return {key: _read_tree((*path, key), like[key], given[key], mask) for key in like}


def _read_option(env: JaxEnv, name: str, space: Any, attribute: str = "reset_options") -> Option:
    label = f"`{attribute}[{name!r}]`"
    if not isinstance(space, ARRAY_SPACES):
        raise ArgumentTypeError(
            f"{label} must be Box, Discrete, MultiDiscrete or MultiBinary, got {space!r}."
        )
    check_range(label, space)
    default, like = _read_keyword(env, name, label), action_struct(space)
    read = partial(_read_values, name, cast_space(space, lambda _: like.dtype))
    return Option(read, like, _read_default(default, like, space))


def _read_default(default: Any, like: Any, space: Space[Any]) -> np.ndarray | None:
    """Return the default of an option if it is a value of its space, in JAX's dtype."""
    if not isinstance(default, bool | int | float | np.generic | np.ndarray | jax.Array):
        return None
    natural = np.asarray(default)
    natural = natural.astype(jax.dtypes.canonicalize_dtype(natural.dtype))
    with np.errstate(invalid="ignore", over="ignore"):
        value = natural.astype(like.dtype)
    is_alike = natural.shape == like.shape and (natural.dtype == bool) == (value.dtype == bool)
    is_inside = is_alike and np.array_equal(value, natural)
    return value if is_inside and cast_space(space, lambda _: value.dtype).contains(value) else None


def given_together(options: Mapping[str, Option]) -> list[frozenset[str]]:
    """Return the sets of options for which `reset` is traced.

    Options with a value as their default are in each: they are given it. What `reset` does with any
    other default, such as None, shows in a trace without the option alone.
    """
    others = sorted(name for name, option in options.items() if option.default is None)
    if 2 ** len(others) > _MOST_TRACES:
        raise ArgumentError(
            f"`reset_options` may have at most 4 options whose default in `reset` is no value of "
            f"their space, got {others}. The batch traces `reset` for each choice of them, and for "
            "the others only once: give them a number or an array as default."
        )
    always = options.keys() - others
    return [
        frozenset({*some, *always})
        for size in range(len(others) + 1)
        for some in combinations(others, size)
    ]


def _read_keyword(env: JaxEnv, name: str, label: str) -> Any:
    """Return the default of an option in the signature of `reset`, None if it takes any keyword."""
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
    return None if found is None else found.default


def _read_values(name: str, space: Space[Any], given: Any, mask: np.ndarray) -> np.ndarray:
    """Return the values of an option, (num_envs, ...)."""
    label = f"`options[{name!r}]`"
    array = read_array(label, given, (*mask.shape, *(space.shape or ())), space.dtype)
    if not batch_space(space, int(mask.sum())).contains(array[mask]):
        raise ArgumentError(f"{label} must lie in {space} for each environment, got {array}.")
    return array
