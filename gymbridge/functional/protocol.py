"""What a functional JAX environment has to provide so that it can be batched."""

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
    have the same shapes and dtypes. Where an engine's states store no observation, the states here
    have the observation, the reward and the flags beside them.

    Attributes:
        observation_space: Space of one observation.
        action_space: Space of one action.
        name: What it is called in messages, such as "Reacher (backend spring)".
        engine: The object of the engine; `get_attr` returns its attributes for every environment.
        loop_advice: What a user can do where reverse mode cannot pass `step`.

    Further attributes are optional:

    - ``reset_options``: further arguments of `reset`, by name, each with its reader; see
      `gymbridge.core.episode.Simulator`.
    - ``model``: the model of the physics, which is the simulator's `built_with`.
    - ``step_seconds``: simulated seconds of a step.
    - ``is_drawable``: whether frames can be drawn. Then there are also ``make_renderer(view)``, as
      in a `Simulator`, and ``drawn(states)``, which returns what the renderer's `draw` takes.
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
        """Return the state as terminated, with 0 in place of NaN and Inf in its infos.

        It is called for rows whose observation, reward or positions are NaN or Inf.
        """
        ...

    def positions(self, state: _StateT) -> Any:
        """Return the leaves that must stay finite, besides observation and reward."""
        ...

    def physics_leaves(self, state: _StateT) -> Any:
        """Return the leaves that make the vjp of a step zero when they overflow; see `sever`."""
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
