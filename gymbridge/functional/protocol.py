"""What a functional JAX environment has to provide, whoever wrote it."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space, spaces

from gymbridge.core.episode import TimeStep
from gymbridge.errors import ArgumentError

__all__ = ["FunctionalEnv", "action_struct"]

_StateT = TypeVar("_StateT")


class FunctionalEnv(Protocol[_StateT]):
    """One environment as pure functions, unbatched, which JAX can trace.

    A state is any pytree of arrays. `reset` and `step` return states of one structure, whose leaves
    have the same shapes and dtypes. A translation whose states store no observation keeps the parts
    of the time step beside them.

    Attributes:
        observation_space: Space of one observation.
        action_space: Space of one action.
        name: What it is called in messages, such as "Reacher (backend spring)".
        engine: The object of the engine, whose attributes are those of every environment.
        loop_advice: What a user can do where reverse mode cannot pass `step`.

    An environment whose `reset` takes something beside the key has `reset_options`, its name and
    its reader; one with a model of its physics may have it as `model`, as `built_with`. See
    `gymbridge.core.episode.Simulator` for both. One that knows the simulated seconds of a step has
    `step_seconds`. One that can be drawn has `is_drawable`, `make_renderer(view)` as a `Simulator`
    has it, and ``drawn(states)``: of a batch of states, what its renderer's `draw` takes.
    """

    observation_space: Space[Any]
    action_space: Space[Any]
    name: str
    engine: Any
    loop_advice: str

    def reset(self, key: jax.Array) -> _StateT:
        """Return the initial state of one episode, with reward 0 and both flags False."""
        ...

    def step(self, state: _StateT, action: Any) -> _StateT:
        """Return the state one step later."""
        ...

    def read(self, state: _StateT) -> TimeStep:
        """Return what a user sees of a state; the flags are scalars of bool."""
        ...

    def write(self, state: _StateT, obs: Any, reward: Any) -> _StateT:
        """Return the state with another observation and reward to read."""
        ...

    def finish(self, state: _StateT) -> _StateT:
        """Return the state as one whose episode has terminated, with nothing to read but numbers.

        Asked of rows that produced NaN or Inf; NaN in infos becomes 0.
        """
        ...

    def positions(self, state: _StateT) -> Any:
        """Return the leaves that must stay finite, besides observation and reward."""
        ...

    def physics_leaves(self, state: _StateT) -> Any:
        """Return the leaves whose overflow makes the vjp of a step zero; see `sever`."""
        ...


def action_struct(space: Space[Any]) -> Any:
    """Return the shapes and dtypes of one action, as JAX has them.

    Raises:
        ArgumentError: The space is not made of arrays.
    """
    if isinstance(space, spaces.Dict):
        return {key: action_struct(sub) for key, sub in space.spaces.items()}
    shape, dtype = space.shape, space.dtype
    if shape is None or dtype is None:
        raise ArgumentError(f"`action_space` must be made of arrays, got {space}.")
    return jax.eval_shape(lambda: jnp.asarray(np.zeros(shape, dtype)))
