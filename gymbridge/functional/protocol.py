"""What a functional JAX environment has to provide so that it can be batched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space, spaces

from gymbridge.core.episode import Renderer, TimeStep, View
from gymbridge.errors import ArgumentError, EnvContractError

__all__ = [
    "KEY",
    "Coordinates",
    "Drawing",
    "Facts",
    "FunctionalEnv",
    "action_struct",
    "check_float_actions",
]

KEY = jax.ShapeDtypeStruct((2,), np.dtype("uint32"))
"""What the key of an episode looks like: that of `jax.random.PRNGKey` by JAX's defaults."""

_StateT = TypeVar("_StateT")


class Coordinates(NamedTuple):
    """The leaves of a state from which the others can be computed, such as those of a mechanism."""

    names: Sequence[str]
    """Their names, as in `FunctionalSimulator.leaf_names`."""
    write: Callable[..., Any]
    """(state, leaves) -> the state with these leaves, and what derives from them computed anew."""


class Facts(NamedTuple):
    """What an environment says of itself; one that wraps another passes this on whole."""

    name: str
    """What it is called in messages, such as "Reacher (backend spring)"."""
    engine: Any
    """The object of the engine; `get_attr` returns its attributes for every environment."""
    loop_advice: str = "Write the step without a loop of unknown length."
    """What a user can do where reverse mode cannot pass `step`."""
    model: Any = None
    """The model of the physics, which is the simulator's `built_with`."""
    step_seconds: float | None = None
    """Simulated seconds of a step."""
    coordinates: Coordinates | None = None
    """In what a step is linearised; None where a user has to say it."""
    reset_options: Mapping[str, Callable[[Any, Any], Any]] = {}
    """Readers of the keyword arguments of `reset` by name, as in `core.episode.Simulator`."""


class Drawing(NamedTuple):
    """How frames of an environment are drawn."""

    make_renderer: Callable[[View], Renderer]
    """As in `core.episode.Simulator`."""
    drawn: Callable[[Any], Any]
    """From a batch of states to what the renderer's `draw` takes."""
    is_possible: bool = True
    """False where `make_renderer` always raises, and says why."""
    make_page: Callable[..., str] | None = None
    """From a list of what is drawn, an index, the seconds between two and the height of the viewer
    in pixels to a page of HTML; None without a viewer."""


class FunctionalEnv(Protocol[_StateT]):
    """One environment as pure functions, unbatched, which JAX can trace.

    A state is any pytree of arrays. `reset` and `step` return states of one structure, whose leaves
    have the same shapes and dtypes. Where an engine's states store no observation, the states here
    have the observation, the reward and the flags beside them.

    Attributes:
        observation_space: Space of one observation.
        action_space: Space of one action.
        facts: What it says of itself.
    """

    observation_space: Space[Any]
    action_space: Space[Any]
    facts: Facts

    @property
    def drawing(self) -> Drawing | None:
        """How frames are drawn; None where they cannot be."""
        ...

    def reset(self, key: jax.Array) -> _StateT:
        """Return the initial state of one episode, with reward 0 and both flags False.

        What the readers of `Facts.reset_options` return comes as keyword arguments of these names:
        those alone that the user gave, so each needs a default.
        """
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


def check_float_actions(user: str, space: Space[Any]) -> None:
    """Raise unless all actions of a space are floats.

    Args:
        user: What needs them, in errors.
        space: Space of one action.

    Raises:
        EnvContractError: Some are not.
    """
    structs = jax.tree.leaves(action_struct(space))
    if not all(jnp.issubdtype(struct.dtype, jnp.floating) for struct in structs):
        raise EnvContractError(f"`{user}` needs actions that are floats, got {space}.")
