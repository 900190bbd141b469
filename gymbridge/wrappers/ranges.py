"""Rewards and actions in other ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from gymbridge.core.actions import check_shape
from gymbridge.core.episode import TimeStep
from gymbridge.errors import ArgumentError
from gymbridge.wrappers.batch_wrapper import BatchWrapper
from gymbridge.wrappers.libraries import ArrayLibrary

__all__ = ["ClipReward", "RescaleAction"]


class ClipReward(BatchWrapper):
    """Rewards between two bounds.

    Args:
        env: A batch.
        min_reward: The least reward, or None.
        max_reward: The largest reward, or None.

    Raises:
        ArgumentTypeError: `env` is not a vector environment.
        ArgumentError: A bound is not a number, both are None, or they are in the wrong order.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        min_reward: float | None = None,
        max_reward: float | None = None,
    ) -> None:
        given = [bound for bound in (min_reward, max_reward) if bound is not None]
        is_number = [isinstance(x, int | float | np.number) and not np.isnan(x) for x in given]
        if not given or not all(is_number) or given[0] > given[-1]:
            raise ArgumentError(
                "`min_reward` and `max_reward` must be numbers in this order, and one of them may "
                f"be None, got {min_reward!r} and {max_reward!r}."
            )
        super().__init__(env, min_reward=min_reward, max_reward=max_reward)
        bounds = min_reward, max_reward  # as Python's floats, which leave the dtype as it is
        self._bounds = [None if bound is None else float(bound) for bound in bounds]

    def _follow(self, time_step: TimeStep, some: Any) -> TimeStep:
        return time_step._replace(reward=self._library.xp.clip(time_step.reward, *self._bounds))


class RescaleAction(BatchWrapper):
    """Actions from another range, stretched to that of the batch.

    Args:
        env: A batch with actions in a bounded `Box` of floats.
        min_action: Becomes the least action; a number, or an array of the shape of one action.
        max_action: Becomes the largest action.

    Raises:
        ArgumentTypeError: `env` is not a vector environment.
        ArgumentError: `env` has other actions, or the bounds are not finite, have another shape or
            are in the wrong order.

    Actions beyond the range are not clipped. Gradients pass.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], min_action: Any, max_action: Any) -> None:
        super().__init__(env, min_action=min_action, max_action=max_action)
        space: Any = self.single_action_space
        if not (isinstance(space, spaces.Box) and space.dtype.kind == "f" and space.is_bounded()):
            raise ArgumentError(f"`env` must have actions in a bounded Box of floats, got {space}.")
        low, high = (_read_bound(bound, space.shape) for bound in (min_action, max_action))
        if not (np.isfinite(high - low).all() and (low < high).all()):
            raise ArgumentError(
                "`min_action` and `max_action` must be finite numbers in this order, or arrays of "
                f"shape {space.shape}, got {min_action!r} and {max_action!r}."
            )
        scale = (space.high.astype(float) - space.low) / (high - low)
        self._line = self._put(space.low - low * scale), self._put(scale)
        self._stretch, self._dtype = self._library.compile(_stretch), space.dtype.name
        bounds = low.astype(space.dtype), high.astype(space.dtype)
        self.single_action_space = spaces.Box(*bounds, space.shape, space.dtype)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def _act(self, actions: Any) -> Any:
        if self._library.xp is np or isinstance(actions, np.ndarray):
            actions = self._put(actions)
        if not hasattr(actions, "shape"):
            return actions  # which the batch refuses
        check_shape(actions, (self.num_envs, *self._line[0].shape))
        return self._stretch(self._library, self._dtype, actions, *self._line)


def _read_bound(bound: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return a bound of each component, NaN where it has none."""
    try:
        return np.broadcast_to(np.asarray(bound, float), shape)
    except (TypeError, ValueError):
        return np.full(shape, np.nan)


def _stretch(library: ArrayLibrary, dtype: str, actions: Any, offset: Any, scale: Any) -> Any:
    return library.cast(offset + actions * scale, getattr(library.xp, dtype))
