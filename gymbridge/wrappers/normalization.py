"""Observations and rewards over their running deviations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers.utils import create_zero_array

from gymbridge.core.arrays.adapter import map_arrays
from gymbridge.core.episode import TimeStep
from gymbridge.core.players import check_turns
from gymbridge.errors import ArgumentError
from gymbridge.wrappers.batch_wrapper import BatchWrapper, by_name, find_idle, find_moved
from gymbridge.wrappers.libraries import ArrayLibrary, map_leaves
from gymbridge.wrappers.moments import RunningMoments, learn, no_moments
from gymbridge.wrappers.observations import ObservationWrapper

__all__ = ["NormalizeObservation", "NormalizeReward"]


class _Options(NamedTuple):
    mode: AutoresetMode
    statistics: str
    epsilon: float
    learns: bool
    clip: float | None = None
    gamma: float = 0.99


class _Normalizer(BatchWrapper):
    """A wrapper that remembers moments."""

    update_running_mean = True

    def __init__(
        self, env: Any, *show: Any, epsilon: float, statistics: str, **settings: Any
    ) -> None:
        _check("epsilon", epsilon, "a positive number", lambda x: 0 < x < np.inf)
        if statistics not in ("batch", "env"):
            raise ArgumentError(
                "`statistics` must be 'batch' (one set for all environments) or 'env' (one for "
                f"each), got {statistics!r}."
            )
        super().__init__(env, *show, epsilon=epsilon, statistics=statistics, **settings)

    @property
    def moments(self) -> Any:
        """Moments in numpy, for which a read waits for the device; assign those of another run."""
        return map_arrays(self._library.to_numpy, self._state.memory)

    @moments.setter
    def moments(self, moments: Any) -> None:
        memory = self._restore(self._state.memory, "moments", by_name(moments, "moments"))
        self._state = self._state._replace(memory=memory)

    def _options(self) -> _Options:
        return _Options(self._mode, learns=self.update_running_mean, **self._settings)

    def __reduce__(self) -> Any:
        """Pickle and copy with what outlives episodes."""
        kept = {"moments": self.moments, "update_running_mean": self.update_running_mean}
        return *super().__reduce__(), (None, kept)  # the second part is assigned by `setattr`


class NormalizeObservation(_Normalizer, ObservationWrapper):
    """Observations, final ones too, less their running mean and over their standard deviation.

    Args:
        env: A batch with observations in a `Box` or a `Dict` of Boxes.
        epsilon: Added to the variance under the root.
        statistics: "batch" for the moments of all environments together, "env" for those of each.
        clip: Largest absolute value of an observation; None for no limit.

    Attributes:
        obs_rms: `RunningMoments`, or a dict of them, in numpy. Assign those of another run.
        update_running_mean: Whether calls update the moments; False for an evaluation.

    Raises:
        ArgumentTypeError: `env` is not a vector environment.
        ArgumentError: An argument has an invalid value, or `env` has other observations, or is
            normalised or stacked already.

    The observations that a step reached update the moments, and after that those with which
    episodes begin in the same step. Final observations, and rows that go on, are scaled between the
    two. Rows that a call leaves as they are, by a mask or since they ended, are not counted.
    Observations are float32; their gradients do not pass the moments. Copies keep the moments.

    Example:
        >>> from gymbridge.testing import scripted_vector_env
        >>> envs = NormalizeObservation(scripted_vector_env(lengths=[2, 5]), clip=10)
        >>> _ = envs.reset(seed=0)
        >>> envs.step([0, 0])[0]
        array([0.99997497, 0.99997497], dtype=float32)
    """

    belongs_inside = ("FrameStackObservation", "NormalizeObservation")
    obs_rms = _Normalizer.moments

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        epsilon: float = 1e-8,
        *,
        statistics: str = "batch",
        clip: float | None = None,
    ) -> None:
        bound = np.inf if clip is None else clip
        _check("clip", bound, "a positive number", lambda x: x > 0)
        super().__init__(env, _show, epsilon=epsilon, statistics=statistics, clip=clip)
        self.single_observation_space = _bound_space(self.single_observation_space, bound)
        zeros = create_zero_array(self.single_observation_space)
        self._remember(map_leaves(lambda x: no_moments(env.num_envs, x.shape, statistics), zeros))


def _bound_space(space: Any, bound: float) -> Space[Any]:
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: _bound_space(part, bound) for key, part in space.items()})
    if not isinstance(space, spaces.Box):
        raise ArgumentError(f"`env` must have observations in Boxes to normalise, got {space}.")
    return spaces.Box(-bound, bound, space.shape, np.float32)


def _show(
    library: ArrayLibrary, options: _Options, memory: Any, last: Any, obs: Any, *masks: Any
) -> tuple[Any, Any]:
    """Update the moments with the rows that moved or began, and scale all."""

    def update(values: Any, moments: RunningMoments) -> RunningMoments:
        return learn(library, moments, values, masks[0], options.statistics)

    def scale(values: Any, moments: RunningMoments) -> Any:
        scaled = (values - moments.mean) / library.xp.sqrt(moments.var + options.epsilon)
        if options.clip is not None:
            scaled = library.xp.clip(scaled, -options.clip, options.clip)
        return library.cast(scaled, library.xp.float32)

    memory = map_leaves(update, obs, memory) if options.learns else memory
    return memory, map_leaves(scale, obs, memory)


class _Returns(NamedTuple):
    memory: RunningMoments
    returns: Any  # (num_envs,) float, discounted sums of rewards
    idle: Any  # (num_envs,) bool, ended and not yet begun again


class NormalizeReward(_Normalizer):
    """Rewards over the running standard deviation of the discounted return.

    Args:
        env: A batch.
        gamma: Discount of the return.
        epsilon: Added to the variance under the root.
        statistics: "batch" for the moments of all environments together, "env" for those of each.

    Attributes:
        return_rms: `RunningMoments` of the returns, in numpy. Assign those of another run.
        update_running_mean: Whether steps update the moments; False for an evaluation.

    Raises:
        ArgumentTypeError: `env` is not a vector environment.
        ArgumentError: An argument has an invalid value, rewards are clipped or normalised inside
            `env`, or its players take turns.

    The return is the reward plus `gamma` times the return before, unless the step terminates the
    episode. It begins at 0 with a `reset` of the row, and in SameStep after each end. Rows that
    begin an episode in NextStep, and those that a call leaves as they are, are not counted. Rewards
    keep their dtype; their gradients do not pass the moments. Copies keep the moments.
    """

    belongs_inside = ("ClipReward", "NormalizeReward")
    return_rms = _Normalizer.moments

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        gamma: float = 0.99,
        epsilon: float = 1e-8,
        *,
        statistics: str = "batch",
    ) -> None:
        _check("gamma", gamma, "a number from 0 to 1", lambda x: 0 <= x <= 1)
        super().__init__(env, gamma=gamma, epsilon=epsilon, statistics=statistics)
        check_turns("env", env, type(self).__name__)
        self._advance = self._library.compile(_advance)
        moments, zeros = no_moments(self.num_envs, (), statistics), np.zeros(self.num_envs)
        self._state = map_arrays(self._put, _Returns(moments, zeros, zeros.astype(np.bool_)))

    def _begin(self, obs: Any, rows: Any) -> Any:
        memory, returns, idle = self._state
        returns = self._library.xp.where(rows, 0.0, returns)
        self._state = _Returns(memory, returns, idle & ~rows)
        return obs

    def _follow(self, time_step: TimeStep, some: Any) -> TimeStep:
        options, values = self._options(), time_step[1:4]
        self._state, scaled = self._advance(self._library, options, self._state, values, some)
        return time_step._replace(reward=scaled)


def _advance(
    library: ArrayLibrary, options: _Options, state: _Returns, values: Any, some: Any
) -> tuple[_Returns, Any]:
    """Return the returns and moments after a step, and the scaled rewards."""
    (moments, before, idle), (rewards, terminations, truncations) = state, values
    xp, moved = library.xp, find_moved(idle, some)
    returns = xp.where(terminations, 0.0, before * options.gamma)
    returns = returns + library.detach(library.cast(rewards, float))
    returns = xp.where(moved, returns, before)
    if options.learns:
        moments = learn(library, moments, returns, moved, options.statistics)
    scaled = library.cast(rewards / xp.sqrt(moments.var + options.epsilon), rewards.dtype)
    ended = terminations | truncations
    idle = find_idle(options.mode, ended)
    return _Returns(moments, xp.where(ended & ~idle, 0.0, returns), idle), scaled


def _check(name: str, value: Any, rule: str, holds: Callable[[Any], bool]) -> None:
    if not isinstance(value, int | float | np.number) or not holds(value):
        raise ArgumentError(f"`{name}` must be {rule}, got {value!r}.")
