"""The wrappers that CleanRL's continuous PPO puts around each environment, for a whole batch.

``ClipAction``, ``NormalizeObservation``, ``NormalizeReward`` and the clips to [-10, 10] behind
them, with the formulas of Gymnasium's wrappers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers.utils import update_mean_var_count_from_moments

from gymbridge.errors import ArgumentError

__all__ = ["RunningMoments", "ScaledVectorEnv", "check_scaling"]

_BOUND = 10.0
_EPSILON = 1e-8


class RunningMoments:
    """Mean and variance of what was seen, of each environment for itself or of all together.

    Args:
        num_envs: Size of the batch.
        shape: Of one environment's value.
        statistics: "env" or "batch".

    Attributes:
        mean, var: (num_envs, ...) float64 for "env", (1, ...) for "batch"; the rest is `shape`.
        count: (num_envs, 1, ...) float64 or (1, 1, ...), values seen.
    """

    def __init__(self, num_envs: int, shape: tuple[int, ...], statistics: str) -> None:
        self._is_shared = statistics == "batch"
        lead = 1 if self._is_shared else num_envs
        self.mean = np.zeros((lead, *shape))
        self.var = np.ones((lead, *shape))
        self.count = np.full((lead, *(1 for _ in shape)), 1e-4)

    def update(self, values: np.ndarray, rows: Any) -> None:
        """Take in the values, (k, ...), of the k environments that `rows` picks."""
        rows, seen = self._group(rows), (values, 0.0, 1)
        if self._is_shared:
            seen = values.mean(0, np.float64), values.var(0, np.float64), len(values)
        old = self.mean[rows], self.var[rows], self.count[rows]
        new = update_mean_var_count_from_moments(*old, *seen)
        self.mean[rows], self.var[rows], self.count[rows] = new

    def scale(self, rows: Any) -> np.ndarray:
        """Return (k, ...) or (1, ...), what to divide by."""
        return np.sqrt(self.var[self._group(rows)] + _EPSILON)

    def center(self, rows: Any) -> np.ndarray:
        """Return (k, ...) or (1, ...), what to subtract."""
        return self.mean[self._group(rows)]

    def _group(self, rows: Any) -> Any:
        return slice(None) if self._is_shared else rows


class ScaledVectorEnv(VectorWrapper):
    """A batch whose actions are clipped and whose observations and rewards are normalised.

    Args:
        envs: A `CleanRLVectorEnv`.
        statistics: "env" gives each environment its own running mean and variance, exactly as
            wrappers inside a ``SyncVectorEnv``. "batch" has one set for all, so that every row is
            scaled alike and the statistics settle num_envs times faster; the better choice for
            large batches, and the same for a batch of one.
        gamma: Discount of the return whose variance scales the rewards.

    Attributes:
        observation_moments: Of the observations, final ones included.
        return_moments: Of the discounted returns.

    Raises:
        ArgumentError: `statistics` or `gamma` has an invalid value, or observations are no Box.

    Actions are clipped to their Box. Observations are centred, divided by their deviation and
    clipped to [-10, 10], final observations too; rewards are divided by the deviation of the
    discounted return and clipped to [-10, 10]. Returns in ``final_info`` are of the task's own
    rewards.
    """

    def __init__(
        self, envs: VectorEnv[Any, Any, Any], *, statistics: str = "env", gamma: float = 0.99
    ) -> None:
        check_scaling(statistics, gamma)
        space = envs.single_observation_space
        if not isinstance(space, spaces.Box):
            raise ArgumentError(f"`normalize` needs Box observations, got {space}; leave it out.")
        super().__init__(envs)
        dtype: Any = space.dtype if space.dtype.kind == "f" else np.float32
        self.single_observation_space = spaces.Box(-_BOUND, _BOUND, space.shape, dtype)
        self.observation_space = batch_space(self.single_observation_space, envs.num_envs)
        self.observation_moments = RunningMoments(envs.num_envs, space.shape, statistics)
        self.return_moments = RunningMoments(envs.num_envs, (), statistics)
        self._returns = np.zeros(envs.num_envs)
        self._gamma = gamma

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin new episodes; observations outside a ``reset_mask`` are not counted again."""
        obs, infos = self.env.reset(seed=seed, options=options)
        rows = (options or {}).get("reset_mask", slice(None))
        self.observation_moments.update(obs[rows], rows)
        return self._normalize(obs, slice(None)), infos

    def step(
        self, actions: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one step with clipped actions; see `CleanRLVectorEnv.step`."""
        space = self.single_action_space
        if isinstance(space, spaces.Box):
            actions = np.clip(actions, space.low, space.high)
        obs, rewards, terminations, truncations, infos = self.env.step(actions)
        obs, infos = self._normalize_step(obs, infos)
        rewards = self._normalize_rewards(rewards, terminations)
        return obs, rewards, terminations, truncations, infos

    def _normalize_step(
        self, obs: np.ndarray, infos: dict[str, Any]
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Count and normalise what the step reached, and after that what restarts began with."""
        over, everyone = infos.get("_final_observation"), slice(None)
        if over is None:
            self.observation_moments.update(obs, everyone)
            return self._normalize(obs, everyone), infos
        reached, finals = obs.copy(), np.empty(len(obs), object)
        reached[over] = np.stack(infos["final_observation"][over])
        self.observation_moments.update(reached, everyone)
        scaled = self._normalize(reached, everyone)
        for index in over.nonzero()[0].tolist():
            finals[index] = scaled[index, ...].copy()
        self.observation_moments.update(obs[over], over)
        scaled[over] = self._normalize(obs[over], over)
        return scaled, {**infos, "final_observation": finals}

    def _normalize(self, obs: np.ndarray, rows: Any) -> np.ndarray:
        moments = self.observation_moments
        scaled = (obs - moments.center(rows)) / moments.scale(rows)
        return scaled.clip(-_BOUND, _BOUND).astype(self.single_observation_space.dtype)

    def _normalize_rewards(self, rewards: np.ndarray, terminations: np.ndarray) -> np.ndarray:
        self._returns = self._returns * self._gamma * (1 - terminations) + rewards
        self.return_moments.update(self._returns, slice(None))
        scaled = rewards / self.return_moments.scale(slice(None))
        return scaled.clip(-_BOUND, _BOUND).astype(rewards.dtype)


def check_scaling(statistics: Any, gamma: Any) -> None:
    """Raise unless both can be given to `ScaledVectorEnv`, or `statistics` is None."""
    if statistics not in (None, "env", "batch"):
        raise ArgumentError(
            "`normalize` must be None, 'env' (statistics for each environment) or 'batch' (one set "
            f"for all), got {statistics!r}."
        )
    if not isinstance(gamma, int | float | np.number) or not 0 <= gamma <= 1:
        raise ArgumentError(f"`gamma` must be a number from 0 to 1, got {gamma!r}.")
