"""The wrappers that CleanRL's continuous PPO puts around each environment, for a whole batch.

``ClipAction``, ``NormalizeObservation``, ``NormalizeReward`` and the clips to [-10, 10] behind
them, with the formulas of Gymnasium's wrappers.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers.utils import update_mean_var_count_from_moments

from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.trainers.cleanrl.vector_env import CleanRLVectorEnv

__all__ = ["RunningMoments", "ScaledVectorEnv", "check_scaling"]

_BOUND = 10.0
_EPSILON = 1e-8


class RunningMoments:
    """Running mean and variance of values, for each environment or for all of them together.

    Args:
        num_envs: Size of the batch.
        shape: Shape of one environment's value.
        statistics: "env" for each environment, "batch" for all together.

    Attributes:
        mean, var: ``(num_envs, *shape)`` float64 for "env", ``(1, *shape)`` for "batch".
        count: (num_envs, 1, ...) float64 for "env", (1, 1, ...) for "batch"; number of values.
    """

    def __init__(self, num_envs: int, shape: tuple[int, ...], statistics: str) -> None:
        self._is_shared = statistics == "batch"
        lead = 1 if self._is_shared else num_envs
        self.mean = np.zeros((lead, *shape))
        self.var = np.ones((lead, *shape))
        self.count = np.full((lead, *(1 for _ in shape)), 1e-4)

    def update(self, values: np.ndarray, rows: Any) -> None:
        """Update the moments with the values, ``(k, *shape)``, of the k environments in `rows`."""
        rows, seen = self._group(rows), (values, 0.0, 1)
        if self._is_shared:
            seen = values.mean(0, np.float64), values.var(0, np.float64), len(values)
        old = self.mean[rows], self.var[rows], self.count[rows]
        new = update_mean_var_count_from_moments(*old, *seen)
        self.mean[rows], self.var[rows], self.count[rows] = new

    def scale(self, rows: Any) -> np.ndarray:
        """Return the standard deviations to divide by, ``(k, *shape)`` or ``(1, *shape)``."""
        return np.sqrt(self.var[self._group(rows)] + _EPSILON)

    def center(self, rows: Any) -> np.ndarray:
        """Return the means to subtract, ``(k, *shape)`` or ``(1, *shape)``."""
        return self.mean[self._group(rows)]

    def _group(self, rows: Any) -> Any:
        return slice(None) if self._is_shared else rows


class ScaledVectorEnv(VectorWrapper):
    """A batch whose actions are clipped and whose observations and rewards are normalised.

    Args:
        envs: A `CleanRLVectorEnv`, or a wrapper around one: others lay out final observations in
            another way, so these would stay as they are.
        statistics: "env" gives each environment its own running mean and variance, as wrappers
            inside a ``SyncVectorEnv`` do. "batch" has one set for all environments: all are scaled
            alike, and each step adds num_envs values to it. Prefer "batch" for large batches.
        gamma: Discount of the return whose variance scales the rewards.

    Attributes:
        observation_moments: `RunningMoments` of the observations, final ones included.
        return_moments: `RunningMoments` of the discounted returns.

    Raises:
        ArgumentError: There is no `CleanRLVectorEnv` inside, `statistics` or `gamma` has an invalid
            value, or the observation space is not a Box.
        ArgumentTypeError: `envs` is not a `VectorEnv`.

    Actions are clipped to their Box. Observations, final ones included, are centred, divided by
    their standard deviation and clipped to [-10, 10]. Rewards are divided by the standard deviation
    of the discounted return and clipped to [-10, 10]. Returns in ``final_info`` are sums of the
    task's own rewards.
    """

    __copy__ = copy.deepcopy  # around a copied batch, not around the same one

    def __init__(
        self, envs: VectorEnv[Any, Any, Any], *, statistics: str = "env", gamma: float = 0.99
    ) -> None:
        _check_view(envs)
        check_scaling("statistics", statistics, gamma)
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
        """Begin new episodes; observations outside a ``reset_mask`` do not update the moments."""
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


def _check_view(envs: Any) -> None:
    layer = envs
    while isinstance(layer, VectorWrapper) and not isinstance(layer, CleanRLVectorEnv):
        layer = layer.env
    if isinstance(layer, CleanRLVectorEnv):
        return
    hint = "pass `CleanRLVectorEnv(envs)`, or use `make_cleanrl(..., normalize='env')`"
    if not isinstance(envs, VectorEnv):
        raise ArgumentTypeError(
            f"`envs` must be a CleanRLVectorEnv, got {type(envs).__name__}; {hint}."
        )
    raise ArgumentError(
        "`envs` must be a CleanRLVectorEnv, whose infos hold the final observations that are "
        f"scaled, got {envs}; {hint}."
    )


def check_scaling(name: str, statistics: Any, gamma: Any) -> None:
    """Raise `ArgumentError` unless `ScaledVectorEnv` takes both.

    `name` is the argument that has the statistics.
    """
    if statistics not in ("env", "batch"):
        raise ArgumentError(
            f"`{name}` must be 'env' (statistics for each environment) or 'batch' (one set for "
            f"all), got {statistics!r}."
        )
    if not isinstance(gamma, int | float | np.number) or not 0 <= gamma <= 1:
        raise ArgumentError(f"`gamma` must be a number from 0 to 1, got {gamma!r}.")
