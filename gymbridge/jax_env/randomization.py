"""Physics drawn anew for each episode, and kept with its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space

from gymbridge.errors import (
    ArgumentError,
    ArgumentTypeError,
    EnvContractError,
    SimulationError,
    nearest,
)
from gymbridge.jax_env.engine_env import EngineEnv, StateFields
from gymbridge.jax_env.env import Drawn, EnvMetadata, JaxEnv
from gymbridge.jax_env.model import Physics
from gymbridge.jax_env.options import Kept, Option, read_tree
from gymbridge.jax_env.physics import PhysicsDraw
from gymbridge.jax_env.tracing import KEY, action_struct
from gymbridge.private.jax import keeps_old_traces, used_inputs
from gymbridge.private.mjx import read_solver_gradient

__all__ = ["RandomizedEnv", "RandomizedEpisode", "translate"]

_STREAM = 0x70687973
"""Folded into an episode's key for its physics, so that they have another random stream."""


def translate(
    env: Any,
    fields: StateFields,
    info_keys: Sequence[str] | str | None,
    differentiable: bool,
    *,
    randomization_fn: Callable[..., Any] | None = None,
    carried: Sequence[str] = (),
    mjx_solver_gradient: str = "auto",
    action_space: Space[Any] | None = None,
    observation_space: Space[Any] | None = None,
) -> JaxEnv:
    """Return one environment of an engine; see `EngineEnv` and `RandomizedEnv`.

    The keyword-only arguments are those that `BraxVectorEnv` and `PlaygroundVectorEnv` share.
    """
    translated = EngineEnv(
        env,
        fields,
        action_space=action_space,
        observation_space=observation_space,
        info_keys=info_keys,
        carried=carried,
        mjx_solver_gradient=read_solver_gradient(
            mjx_solver_gradient, differentiable=differentiable
        ),
    )
    return translated if randomization_fn is None else RandomizedEnv(translated, randomization_fn)


class RandomizedEpisode(NamedTuple):
    """A state and the physics of its episode."""

    state: Any
    physics: Physics


class RandomizedEnv(JaxEnv):
    """An environment whose physics are drawn when an episode begins, and kept until it ends.

    The key of the draw is folded from the episode's key, which the environment's own `reset` gets
    as it is. Only the leaves that vary are in the state. See `PhysicsDraw` for the function.
    """

    def __init__(self, env: EngineEnv, function: Callable[..., Any]) -> None:
        self._env, self._metadata = env, env._env_metadata()
        if not callable(function):
            raise ArgumentTypeError(
                f"`randomization_fn` must be a function, got {type(function).__name__}."
            )
        if env.leaves is None:
            raise EnvContractError(
                f"`randomization_fn` needs a model, and {self._metadata.name} has none."
            )
        self.observation_space, self.action_space = env.observation_space, env.action_space
        draw = PhysicsDraw(env.leaves, function)
        self.carried = env.carried
        self._draw, shapes = jax.jit(draw), draw.shapes
        self._check_read(shapes)
        read, flag = partial(_read_given, shapes), jax.ShapeDtypeStruct((), np.dtype(bool))
        like = {name: Kept(shape, flag) for name, shape in shapes.items()}
        self.reset_options: Mapping[str, Any] = {
            "randomization": Option(read, like),
            **env.reset_options,
        }

    def _env_metadata(self) -> EnvMetadata:
        """Return the metadata of the environment; frames show the physics of the episodes."""
        found = self._metadata

        def draw(states: RandomizedEpisode, count: int) -> Drawn:
            assert found.drawing is not None
            drawn = found.drawing.drawn(states.state, count)
            return drawn._replace(randomization=states.physics)

        def write(states: RandomizedEpisode, leaves: Sequence[Any]) -> RandomizedEpisode:
            assert found.coordinates is not None
            placed = found.coordinates.write(states.state, leaves, states.physics)
            return states._replace(state=placed)

        return found._replace(
            drawing=found.drawing and found.drawing._replace(drawn=draw),
            coordinates=found.coordinates and found.coordinates._replace(write=write),
        )

    def reset(
        self, key: jax.Array, randomization: dict[str, Kept] | None = None, **given: Kept
    ) -> tuple[Any, ...]:
        """Begin an episode; physics that are given by path are not drawn."""
        physics: Physics = self._draw(jax.random.fold_in(key, _STREAM))
        for path, (value, is_given) in (randomization or {}).items():
            physics[path] = jnp.where(is_given, value, physics[path])
        state, obs, info = self._env.reset(key, physics, **given)
        return RandomizedEpisode(state, physics), obs, self._with_physics(info, physics)

    def step(self, key: Any, state: RandomizedEpisode, action: Any) -> tuple[Any, ...]:
        """Take one step under the physics of the episode."""
        after, *seen, info = self._env.step(key, state.state, action, state.physics)
        info = self._with_physics(info, state.physics)
        return state._replace(state=after), *seen, info

    def positions(self, state: RandomizedEpisode) -> Any:
        """Return the generalised positions and velocities."""
        return self._env.positions(state.state)

    def physics_leaves(self, state: RandomizedEpisode) -> Any:
        """Return the state of the simulation."""
        return self._env.physics_leaves(state.state)

    def _with_physics(self, info: dict[str, Any], physics: Physics) -> dict[str, Any]:
        return {**info, "randomization": dict(physics)}

    def _check_read(self, shapes: Physics) -> None:
        """Raise for leaves that neither `reset` nor `step` reads, so that a draw has no effect."""
        env, name = self._env, self._metadata.name
        state, action = jax.eval_shape(env.reset, KEY)[0], action_struct(self.action_space)

        def run(physics: Physics, key: Any, state: Any, action: Any) -> Any:
            return env.reset(key, physics), env.step(key, state, action, physics)

        try:
            keeps_own = keeps_old_traces(run, shapes, KEY, state, action)
            used: dict[str, bool] = used_inputs(run, shapes, KEY, state, action)[0]
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
        unread = [path for path in sorted(shapes) if not used[path]]
        if unread:
            raise EnvContractError(
                f"`randomization_fn` varies {unread[0]!r}, which `reset` and `step` of {name} "
                "never read; see docs/how-to/domain-randomization.md for the leaves that act in "
                "each backend."
            )


def _read_given(shapes: Physics, given: Any, mask: np.ndarray) -> dict[str, Kept]:
    """Return ``options["randomization"]`` as (num_envs, ...) arrays; zeros if not given."""
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(
            "`options['randomization']` must be a dict from dotted paths to arrays, got "
            f"{type(given).__name__}."
        )
    values = {
        name: np.zeros((*mask.shape, *like.shape), like.dtype) for name, like in shapes.items()
    }
    for name, value in given.items():
        label = f"`options['randomization'][{name!r}]`"
        if name not in shapes:
            raise ArgumentError(
                f"{label} is not a leaf that `randomization_fn` varies; "
                f"{nearest(str(name), shapes)}"
            )
        values[name] = read_tree(label, shapes[name], value, mask)
    return {name: Kept(value, np.full(mask.shape, name in given)) for name, value in values.items()}
