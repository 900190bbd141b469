"""The protocol of JAX environments: users derive theirs from it, engines are translated to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from gymnasium import Space

from gymbridge.core.episode import Renderer, View

__all__ = ["Coordinates", "Drawing", "Drawn", "EnvMetadata", "JaxEnv"]


class Coordinates(NamedTuple):
    """The leaves of a state from which the others can be computed, such as those of a mechanism."""

    names: Sequence[str]
    """Their names, as in `JaxSimulator.leaf_names`."""
    write: Callable[..., Any]
    """(state, leaves) -> the state with these leaves, and what derives from them computed anew."""


class Drawn(NamedTuple):
    """What frames are drawn from; the first axis of every leaf is num_envs."""

    states: Any  # the environment's
    num_envs: int
    physics: Any = None  # the state of the simulation in them
    randomization: Mapping[str, Any] = MappingProxyType({})  # physics drawn for the episode


class Drawing(NamedTuple):
    """How frames of an environment are drawn."""

    make_renderer: Callable[[View], Renderer]
    """As in `core.episode.Simulator`."""
    drawn: Callable[[Any, int], Drawn]
    """From a batch of states and their number to what the renderer's `draw` takes."""
    is_possible: bool = True
    """False where `make_renderer` always raises, and says why."""
    make_page: Callable[..., str] | None = None
    """From a list of what is drawn, an index, the seconds between two and the height of the viewer
    in pixels to a page of HTML; None without a viewer."""


class EnvMetadata(NamedTuple):
    """What is known of an environment besides its functions and spaces."""

    name: str
    """What it is called in messages, such as "Reacher (backend spring)"."""
    engine: Any
    """The object of the engine; `get_attr` returns its attributes for every environment."""
    step_seconds: float | None = None
    """Simulated seconds of a step."""
    coordinates: Coordinates | None = None
    """In what a step is linearised; None where a user has to say it."""
    model: Any = None
    """The model of the physics, which is the simulator's `built_with`."""
    loop_advice: str = "Write the step without a loop of unknown length."
    """What a user can do where reverse mode cannot pass `step`."""
    state_name: str = "state"
    """What errors call its states."""
    drawing: Drawing | None = None
    """How it is drawn; None for its own method `render`, if it has one."""


class JaxEnv(ABC):
    """One environment as two pure functions that JAX can trace; `JaxVectorEnv` makes the batch.

    A subclass has the two spaces and the methods `reset` and `step`, for a single environment
    without a batch axis. A state is any pytree of arrays, with the same shapes and dtypes from both
    methods. Everything else has a default.

    The methods are traced when a batch is built, and called no more. They draw with the keys that
    they get, and branch by `jax.numpy.where` or `jax.lax.cond`. Attributes that change afterwards
    have no effect on that batch.

    Attributes:
        observation_space: Space of one observation: `Box`, `Discrete`, `MultiDiscrete`,
            `MultiBinary` or a `Dict` of such. Observations are arrays of the same shapes and
            dtypes, where JAX's 32 bits stand for 64. For a `Dict` they are dicts or named tuples.
        action_space: Space of one action, of the same kinds.
        name: What the environment is called in messages and snapshots; by default its class.
        max_episode_steps: Steps after which an episode is truncated; None for no limit.
        step_seconds: Simulated seconds of a step, for the speed of videos; None if there are none.
        coordinates: `Coordinates`, the leaves of a state in which `FunctionalVectorEnv.linearize`
            differentiates a step, where its user names none; or None.
        reset_options: Space of each keyword argument of `reset` besides `key`. A user sets it with
            ``envs.reset(options={name: (num_envs, ...)})``; where no value is given, `reset` has
            its own default. A restart by autoreset has no values. At most four options may have
            a default, such as None, that is no value of their space.
        carried: Space of each info that outlives its episode, by name, such as the level of a
            curriculum. Both methods return it. A restart gives `reset` what the last step returned,
            as the keyword argument of that name; its default begins it, and comes back with a seed.
            A user sets it as an option. An environment that diverged in a step keeps the value from
            before that step. No gradient passes a restart.
        info_defaults: Values of infos that only one of the two methods returns, by name, in nested
            dicts as the infos are. The batch puts them where the other one has none.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from gymnasium.spaces import Box, Discrete
        >>> class Walk(JaxEnv):
        ...     observation_space = Box(-5, 5, (), "float32")
        ...     action_space = Discrete(2)
        ...
        ...     def reset(self, key):
        ...         position = jax.random.uniform(key, minval=-1, maxval=1)
        ...         return position, position, {}
        ...
        ...     def step(self, key, state, action):
        ...         position = state + 2 * action - 1 + 0.1 * jax.random.normal(key)
        ...         is_out = jnp.abs(position) > 4
        ...         return position, position, -jnp.abs(position), is_out, False, {}
        >>> from gymbridge import JaxVectorEnv
        >>> envs = JaxVectorEnv(Walk(), num_envs=3, max_episode_steps=100)
        >>> envs.reset(seed=0)[0].shape
        (3,)
    """

    observation_space: Space[Any]
    action_space: Space[Any]
    name: str = ""
    max_episode_steps: int | None = None
    step_seconds: float | None = None
    coordinates: Coordinates | None = None
    reset_options: Mapping[str, Space[Any]] = {}
    carried: Mapping[str, Space[Any]] = {}
    info_defaults: Mapping[str, Any] = {}

    @abstractmethod
    def reset(self, key: Any) -> tuple[Any, Any, dict[str, Any]]:
        """Begin an episode.

        Args:
            key: PRNG key of the episode, ``fold_in(PRNGKey(seed), episode)``; (2,) uint32.

        Returns:
            state: Pytree of arrays.
            observation: Arrays of the observation space.
            info: Nested dicts of arrays.
        """

    @abstractmethod
    def step(
        self, key: Any, state: Any, action: Any
    ) -> tuple[Any, Any, Any, Any, Any, dict[str, Any]]:
        """Take one step.

        Args:
            key: PRNG key of step t of the episode, counted from 0: ``fold_in(fold_in(episode_key,
                0x73746570), t)``.
            state: What `reset` or `step` returned.
            action: Arrays of the action space.

        Returns:
            state: As in `reset`.
            observation: As in `reset`.
            reward: () number.
            terminated: () bool, whether the task ended the episode.
            truncated: () bool, whether its own limit did; where both are True, the task did.
            info: With the same keys as in `reset`.
        """

    def positions(self, state: Any) -> Any:
        """Return the leaves of a state that must stay finite besides observation and reward.

        Where one is NaN or Inf, the batch does what its argument `nonfinite` says. By default there
        are none, because many environments keep Inf in their states on purpose.
        """
        return ()

    def physics_leaves(self, state: Any) -> Any:
        """Return the leaves whose overflow makes the gradient of a step zero; by default all."""
        return state

    def _env_metadata(self) -> EnvMetadata:
        """Return what is known of the environment besides its functions and spaces."""
        name, coordinates = self.name or type(self).__name__, self.coordinates
        if not isinstance(coordinates, Coordinates):  # A user's attribute may have that name.
            coordinates = None
        return EnvMetadata(name, self, self.step_seconds, coordinates)
