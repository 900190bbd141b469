"""Physics drawn anew for each episode: which leaves of a model vary, and how they are drawn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gymbridge.core.episode import TimeStep
from gymbridge.core.jax_private import used_inputs
from gymbridge.errors import ArgumentError, ArgumentTypeError, EnvContractError, nearest
from gymbridge.functional.protocol import action_struct
from gymbridge.functional.state_env import StateEnv

__all__ = ["RandomizedEnv", "RandomizedState"]

_STREAM = 0x70687973
"""Folded into an episode's key, so that its physics are drawn from a stream of their own."""

Physics = dict[str, Any]
"""Leaves of a model by dotted path, such as ``{"opt.gravity": (3,) float}``."""


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
        function: (model, key) -> physics by dotted path; or, as Brax and Playground have it,
            (model, (1, 2) keys) -> (model with leaves (1, ...), the same tree with 0 for these
            leaves and None for the others).

    Raises:
        EnvContractError: The environment has no model, or the function breaks a rule; the message
            names the leaf.
    """

    def __init__(self, env: StateEnv, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ArgumentTypeError(
                f"`randomization_fn` must be a function, got {type(function).__name__}."
            )
        if env.model is None:
            raise EnvContractError(f"`randomization_fn` needs a model, and {env.name} has none.")
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.name, self.engine, self.loop_advice = env.name, env.engine, env.loop_advice
        self._env, self._function = env, function
        named, self._structure = jax.tree_util.tree_flatten_with_path(env.model, is_leaf=_is_none)
        self._leaves = [leaf for _, leaf in named]
        self._names = [_name(path) for path, _ in named]
        key = jax.eval_shape(lambda: jax.random.PRNGKey(0))
        self._draw = self._choose_form(key)
        self._shapes: Physics = jax.eval_shape(self._draw, key)
        self._check_leaves()
        self._check_read(key)
        self.reset_options = {"randomization": self._read_given}

    def reset(self, key: jax.Array, given: Physics | None = None) -> RandomizedState:
        """Return the initial state of one episode; `given` physics take the place of drawn ones."""
        physics = self._draw(jax.random.fold_in(key, _STREAM)) | (given or {})
        return RandomizedState(self._env.reset(key, self._apply(physics)), physics)

    def step(self, state: RandomizedState, action: Any) -> RandomizedState:
        """Return the state one step later."""
        after = self._env.step(state.state, action, self._apply(state.physics))
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

    def _choose_form(self, key: Any) -> Callable[[Any], Physics]:
        """Return the way to call the function, found out by tracing it."""
        is_tuple: list[bool] = []

        def call(keys: jax.Array) -> None:
            is_tuple.append(isinstance(self._function(self._env.model, keys), tuple))

        with contextlib.suppress(Exception):  # one key for a batch is an error in the other form
            jax.eval_shape(call, jax.ShapeDtypeStruct((1, *key.shape), key.dtype))
        return self._draw_batched if is_tuple == [True] else self._draw_named

    def _draw_named(self, key: jax.Array) -> Physics:
        physics = self._function(self._env.model, key)
        if not isinstance(physics, Mapping):
            raise EnvContractError(
                "`randomization_fn` must return a dict by dotted path, or a tuple of model and "
                f"axes, got {type(physics).__name__}."
            )
        for name in physics:
            if name not in self._names:
                raise EnvContractError(
                    f"`randomization_fn` must return leaves of the model, got {name!r}; "
                    f"{nearest(str(name), self._names)}"
                )
        return {name: jnp.asarray(value) for name, value in physics.items()}

    def _draw_batched(self, key: jax.Array) -> Physics:
        model, axes = self._function(self._env.model, key[None])
        leaves, structure = jax.tree.flatten(model, is_leaf=_is_none)
        marks = jax.tree.leaves(axes, is_leaf=_is_none)
        if structure != self._structure or len(marks) != len(leaves):
            raise EnvContractError(
                "`randomization_fn` must return a model of the structure that it got, and axes of "
                f"the same, got {structure} and {len(marks)} axes."
            )
        varied = zip(self._names, leaves, marks, strict=True)
        return {name: jnp.take(leaf, 0, axis) for name, leaf, axis in varied if axis is not None}

    def _apply(self, physics: Physics) -> Any:
        """Return the model with these leaves."""
        named = zip(self._names, self._leaves, strict=True)
        return jax.tree.unflatten(
            self._structure, [physics.get(name, leaf) for name, leaf in named]
        )

    def _check_leaves(self) -> None:
        if not self._shapes:
            raise EnvContractError(
                "`randomization_fn` must vary a leaf of the model; it varies none."
            )
        own = dict(zip(self._names, self._leaves, strict=True))
        for name, leaf in self._shapes.items():
            like = jax.eval_shape(lambda name=name: jnp.asarray(own[name]))
            if not jnp.issubdtype(like.dtype, jnp.floating):
                raise EnvContractError(
                    f"`randomization_fn` must vary floats, got {name!r}, which is {like.dtype}."
                )
            if (leaf.shape, leaf.dtype) != (like.shape, like.dtype):
                raise EnvContractError(
                    f"`randomization_fn` must keep shape and dtype, but {name!r} is "
                    f"{like.dtype}{list(like.shape)} and came back as {leaf.dtype}"
                    f"{list(leaf.shape)}."
                )

    def _check_read(self, key: Any) -> None:
        """Raise for leaves that neither `reset` nor `step` reads, so that drawing them is vain."""
        env, state = self._env, jax.eval_shape(self._env.reset, key)
        action = action_struct(self.action_space)

        def run(physics: Physics, key: Any, state: Any, action: Any) -> Any:
            model = self._apply(physics)
            return env.reset(key, model), env.step(state, action, model)

        used: dict[str, bool] = used_inputs(run, self._shapes, key, state, action)[0]
        unread = [name for name in sorted(self._shapes) if not used[name]]
        if unread:
            raise EnvContractError(
                f"`randomization_fn` varies {unread[0]!r}, which `reset` and `step` of {env.name} "
                "never read; see docs/simulators.md for the leaves that act in each backend."
            )

    def _read_given(self, given: Any, num_envs: int) -> Physics:
        """Return ``options["randomization"]`` as arrays, (num_envs, ...) by path.

        Raises:
            ArgumentTypeError: It is no dict, or a value is no array of floats.
            ArgumentError: A path that does not vary, another shape, or NaN or Inf.
        """
        if not isinstance(given, Mapping):
            raise ArgumentTypeError(
                f"`options['randomization']` must be a dict by path, got {type(given).__name__}."
            )
        return {name: self._read_leaf(name, value, num_envs) for name, value in given.items()}

    def _read_leaf(self, name: Any, value: Any, num_envs: int) -> np.ndarray:
        label = f"`options['randomization'][{name!r}]`"
        if name not in self._shapes:
            raise ArgumentError(
                f"{label} is no leaf that varies; {nearest(str(name), self._shapes)}"
            )
        like = self._shapes[name]
        try:
            array = np.asarray(value)
        except Exception as error:
            raise ArgumentTypeError(f"{label} must be an array, got {value!r}.") from error
        if array.dtype.kind not in "iuf":
            raise ArgumentTypeError(f"{label} must be castable to {like.dtype}, got {array.dtype}.")
        if array.shape != (num_envs, *like.shape):
            raise ArgumentError(
                f"{label} must have shape {(num_envs, *like.shape)}, got {array.shape}."
            )
        if not np.isfinite(array).all():
            raise ArgumentError(f"{label} must be finite, got {array}.")
        return array.astype(like.dtype)


def _is_none(leaf: Any) -> bool:
    return leaf is None


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
