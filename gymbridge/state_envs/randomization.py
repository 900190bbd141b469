"""Physics drawn anew for each episode, and kept with its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from gymbridge.core.episode import TimeStep
from gymbridge.core.jax_private import keeps_old_traces, used_inputs
from gymbridge.core.requests import read_array
from gymbridge.errors import (
    ArgumentError,
    ArgumentTypeError,
    EnvContractError,
    SimulationError,
    nearest,
)
from gymbridge.functional.protocol import KEY, Drawing, FunctionalEnv, action_struct
from gymbridge.functional.tracing import close
from gymbridge.state_envs.model import Physics
from gymbridge.state_envs.physics import PhysicsDraw
from gymbridge.state_envs.rendering import Drawn
from gymbridge.state_envs.state_env import StateEnv

__all__ = ["RandomizedEnv", "RandomizedState", "randomize"]

_STREAM = 0x70687973
"""Folded into an episode's key, so that its physics are drawn from a stream of their own."""


def randomize(env: StateEnv, function: Callable[..., Any] | None) -> FunctionalEnv[Any]:
    """Return the environment with physics drawn by a function; as it is for None."""
    return env if function is None else RandomizedEnv(env, function)


class RandomizedState(NamedTuple):
    """A state and the physics of its episode."""

    state: Any
    physics: Physics


class RandomizedEnv:
    """A `FunctionalEnv` whose physics are drawn when an episode begins, and kept until it ends.

    The key of the draw is folded from the episode's key, which the environment's own `reset` gets
    as it is. Only the leaves that vary are in the state.

    Args:
        env: The environment, with a model.
        function: Function that draws the physics; see `PhysicsDraw`.

    Raises:
        ArgumentTypeError: `function` is not a function.
        EnvContractError: The environment has no model, or the function breaks a rule; the message
            names the leaf.
        SimulationError: The function cannot be traced.
    """

    def __init__(self, env: StateEnv, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ArgumentTypeError(
                f"`randomization_fn` must be a function, got {type(function).__name__}."
            )
        if env.leaves is None:
            raise EnvContractError(
                f"`randomization_fn` needs a model, and {env.facts.name} has none."
            )
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._env, self._draw = env, PhysicsDraw(env.leaves, function)
        state, action = jax.eval_shape(env.reset, KEY), action_struct(self.action_space)
        self._check_read(state, action)
        self._run_draw = close(self._draw, KEY)
        self._reset = close(env.reset, KEY, self._draw.shapes)
        self._step = close(env.step, state, action, self._draw.shapes)
        options = {"randomization": partial(_read_given, self._draw.shapes)}
        coordinates = env.facts.coordinates
        self.facts = env.facts._replace(
            coordinates=coordinates and coordinates._replace(write=self._place),
            reset_options=options,
        )

    @property
    def drawing(self) -> Drawing:
        """That of the environment, which also shows the physics of the episodes."""
        drawing = self._env.drawing

        def draw(state: RandomizedState) -> Drawn:
            return drawing.drawn(state.state)._replace(randomization=state.physics)

        return drawing._replace(drawn=draw)

    def reset(self, key: jax.Array, randomization: Physics | None = None) -> RandomizedState:
        """Return the initial state of an episode; physics given by path are not drawn."""
        physics = self._run_draw(jax.random.fold_in(key, _STREAM)) | (randomization or {})
        return RandomizedState(self._reset(key, physics), physics)

    def step(self, state: RandomizedState, action: Any) -> RandomizedState:
        """Return the state one step later."""
        after = self._step(state.state, action, state.physics)
        return RandomizedState(after, state.physics)

    def read(self, state: RandomizedState) -> TimeStep:
        """Return what a user sees of a state, with the physics in its info."""
        time_step = self._env.read(state.state)
        info = {**time_step.info, "randomization": dict(state.physics)}
        return time_step._replace(info=info)

    def write(self, state: RandomizedState, obs: Any, reward: Any) -> RandomizedState:
        """Return the state with another observation and reward to read."""
        return state._replace(state=self._env.write(state.state, obs, reward))

    def finish(self, state: RandomizedState) -> RandomizedState:
        """Return the state as one whose episode has terminated."""
        return state._replace(state=self._env.finish(state.state))

    def positions(self, state: RandomizedState) -> Any:
        """Return the leaves that must stay finite, besides observation and reward."""
        return self._env.positions(state.state)

    def physics_leaves(self, state: RandomizedState) -> Any:
        """Return the state of the simulation."""
        return self._env.physics_leaves(state.state)

    def _place(self, state: RandomizedState, leaves: Sequence[Any]) -> RandomizedState:
        """Return the state at other coordinates, under the physics of its episode."""
        assert self._env.facts.coordinates is not None
        placed = self._env.facts.coordinates.write(state.state, leaves, state.physics)
        return state._replace(state=placed)

    def _check_read(self, state: Any, action: Any) -> None:
        """Raise for leaves that neither `reset` nor `step` reads, so that drawing them is vain."""
        env, name = self._env, self._env.facts.name

        def run(physics: Physics, key: Any, state: Any, action: Any) -> Any:
            return env.reset(key, physics), env.step(state, action, physics)

        try:
            keeps_own = keeps_old_traces(run, self._draw.shapes, KEY, state, action)
            used: dict[str, bool] = used_inputs(run, self._draw.shapes, KEY, state, action)[0]
        except Exception as error:
            raise SimulationError(
                f"{name} cannot be traced with the physics of `randomization_fn`; it may use "
                f"a varied leaf as a Python number. {type(error).__name__}: {error}"
            ) from error
        if keeps_own:
            raise EnvContractError(
                f"`randomization_fn` has no effect in functions that {name} compiled itself, "
                "since `jax.jit` keeps the model that they saw first. Leave `jax.jit` out of the "
                "environment: the batch compiles it."
            )
        unread = [path for path in sorted(self._draw.shapes) if not used[path]]
        if unread:
            raise EnvContractError(
                f"`randomization_fn` varies {unread[0]!r}, which `reset` and `step` of {name} "
                "never read; see docs/how-to/domain-randomization.md for the leaves that act in "
                "each backend."
            )


def _read_given(shapes: Physics, given: Any, mask: np.ndarray) -> Physics:
    """Return ``options["randomization"]`` as arrays, (num_envs, ...) by path.

    Raises:
        ArgumentTypeError: The option is not a dict, or a value is not an array of numbers.
        ArgumentError: A path does not vary, or a value has another shape or NaN or Inf under
            the mask.
    """
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(
            "`options['randomization']` must be a dict from dotted paths to arrays, got "
            f"{type(given).__name__}."
        )
    return {name: _read_leaf(shapes, name, value, mask) for name, value in given.items()}


def _read_leaf(shapes: Physics, name: Any, value: Any, mask: np.ndarray) -> np.ndarray:
    label = f"`options['randomization'][{name!r}]`"
    if name not in shapes:
        raise ArgumentError(
            f"{label} is not a leaf that `randomization_fn` varies; {nearest(str(name), shapes)}"
        )
    like = shapes[name]
    array = read_array(label, value, (*mask.shape, *like.shape), like.dtype)
    if not np.isfinite(array[mask]).all():
        raise ArgumentError(f"{label} must be finite as {like.dtype}, got {array}.")
    return array
