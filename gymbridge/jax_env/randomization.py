"""Physics drawn anew for each episode, and kept with its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from gymbridge.errors import (
    ArgumentError,
    ArgumentTypeError,
    EnvContractError,
    SimulationError,
    nearest,
)
from gymbridge.jax_env.model import ModelLeaves, Physics
from gymbridge.jax_env.options import Kept, Option, carry_tree
from gymbridge.jax_env.physics import PhysicsDraw
from gymbridge.jax_env.tracing import KEY
from gymbridge.private.jax import keeps_old_traces, used_inputs

__all__ = ["Randomization", "RandomizedEpisode"]

_STREAM = 0x70687973
"""Folded into an episode's key for its physics, so that they have another random stream."""


class RandomizedEpisode(NamedTuple):
    """A state and the physics of its episode."""

    state: Any
    physics: Physics  # only the leaves that vary


class Randomization:
    """Physics that are drawn when an episode begins, and kept until it ends.

    The key of the draw is folded from the episode's key, which the environment's own `reset` gets
    as it is. See `PhysicsDraw` for the function.

    Args:
        name: What the environment is called in errors.
        leaves: Its model.
        function: The user's function.

    Attributes:
        option: The option of `reset` that sets the physics of an episode.
    """

    def __init__(self, name: str, leaves: ModelLeaves, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ArgumentTypeError(
                f"`randomization_fn` must be a function, got {type(function).__name__}."
            )
        if leaves.model is None:
            raise EnvContractError(f"`randomization_fn` needs a model, and {name} has none.")
        draw = PhysicsDraw(leaves, function)
        self._name, self._draw, self._shapes = name, jax.jit(draw), draw.shapes
        leaves_of = {
            path: carry_tree(shape, "randomization", path) for path, shape in draw.shapes.items()
        }
        self.option = Option(
            partial(_read_given, leaves_of),
            {path: option.like for path, option in leaves_of.items()},
            {path: option.default for path, option in leaves_of.items()},
        )

    def draw(self, key: jax.Array, given: dict[str, Kept]) -> Physics:
        """Return the physics of an episode; those that are given by path are not drawn."""
        physics = self._draw(jax.random.fold_in(key, _STREAM))
        return {path: kept.over(physics[path]) for path, kept in given.items()}

    def check_read(self, run: Callable[..., Any], *args: Any) -> None:
        """Raise for leaves that the environment never reads, so that a draw has no effect.

        `run` is a function of physics, a key and `args`: the environment's `reset` and `step`.
        """
        try:
            keeps_own = keeps_old_traces(run, self._shapes, KEY, *args)
            used: dict[str, bool] = used_inputs(run, self._shapes, KEY, *args)[0]
        except Exception as error:
            raise SimulationError(
                f"{self._name} cannot be traced with the physics of `randomization_fn`; it may use "
                f"a varied leaf as a Python number. {type(error).__name__}: {error}"
            ) from error
        if keeps_own:
            raise EnvContractError(
                f"`randomization_fn` has no effect in functions that {self._name} compiled itself, "
                "since `jax.jit` keeps the model that they saw first. Leave `jax.jit` out of the "
                "environment: the batch compiles it."
            )
        unread = [path for path in sorted(self._shapes) if not used[path]]
        if unread:
            raise EnvContractError(
                f"`randomization_fn` varies {unread[0]!r}, which `reset` and `step` of "
                f"{self._name} never read; see docs/how-to/domain-randomization.md for the leaves "
                "that act in each backend."
            )


def _read_given(options: Mapping[str, Option], given: Any, mask: np.ndarray) -> dict[str, Kept]:
    """Return ``options["randomization"]`` as (num_envs, ...) arrays; zeros if not given."""
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(
            "`options['randomization']` must be a dict from dotted paths to arrays, got "
            f"{type(given).__name__}."
        )
    if unknown := [name for name in given if name not in options]:
        raise ArgumentError(
            f"`options['randomization'][{unknown[0]!r}]` is not a leaf that `randomization_fn` "
            f"varies; {nearest(str(unknown[0]), options)}"
        )

    def repeat(value: np.ndarray) -> np.ndarray:
        return np.broadcast_to(value, (*mask.shape, *value.shape))

    return {
        path: option.read(given[path], mask)
        if path in given
        else jax.tree.map(repeat, option.default)
        for path, option in options.items()
    }
