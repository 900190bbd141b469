"""Gymnasium's `SyncVectorEnv`, with which batches are compared, and what it steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from tests.support.scripted_rows import ScriptedEnv
from tests.support.strategies import Script


class OldStep(NamedTuple):
    """One step of a `SyncVectorEnv` in SameStep, in the layout of gymnasium 0.29."""

    obs: np.ndarray
    rewards: np.ndarray
    terminations: np.ndarray
    truncations: np.ndarray
    final_obs: list[Any]  # None where nothing ended
    final_info: list[dict[str, Any] | None]


def old_step(envs: SyncVectorEnv, actions: Any) -> OldStep:
    """Take a step, and return it with a dict of final infos for each environment that ended."""
    *results, infos = envs.step(actions)
    finals = [infos.get(key, [None] * envs.num_envs) for key in ("final_obs", "final_info")]
    rows = [None if obs is None else _take(finals[1], row) for row, obs in enumerate(finals[0])]
    for row in filter(None, rows):
        if "episode" in row:
            total, length = row["episode"]["r"], row["episode"]["l"]
            row["episode"] = {"r": np.array([total], "f4"), "l": np.array([length], "i4")}
    return OldStep(*results, list(finals[0]), rows)


def _take(infos: Any, row: int) -> dict[str, Any]:
    """Return the infos of an environment."""
    kept = {key: infos[key] for key in infos if f"_{key}" in infos and infos[f"_{key}"][row]}
    return {key: _take(x, row) if isinstance(x, dict) else x[row] for key, x in kept.items()}


class WalkEnv(gym.Env[np.ndarray, np.ndarray]):
    """A random walk with float actions whose episodes end by the walk's own random numbers."""

    def __init__(self, observation_space: gym.Space[Any] | None = None) -> None:
        self.observation_space = observation_space or spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Box(-0.5, 0.5, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._at = self.np_random.normal(5, 3, 3)
        return self._obs(), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert np.abs(action).max() <= 0.5, "the walk takes what its space holds"
        self._at = self._at + self.np_random.normal(0, 1, 3) + action.sum()
        end = self.np_random.random()
        reward = 40 * float(self._at[0])
        return self._obs(), reward, bool(end < 0.15), bool(end > 0.85), {"end": end}

    def _obs(self) -> Any:
        if isinstance(self.observation_space, spaces.Dict):
            return spaces.unflatten(self.observation_space, self._at.astype(np.float32))
        return self._at.astype(self.observation_space.dtype)


class BareBatch(VectorEnv[Any, Any, np.ndarray]):
    """A batch that gives its final observations in arrays and no final infos, as ALE's does.

    Args:
        final_obs: What it gives, of both environments; the second one always ends.
    """

    num_envs = 2
    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012
    single_observation_space = spaces.Box(0, 9, (2,), np.float32)
    single_action_space = spaces.Discrete(2)

    def __init__(self, final_obs: Any) -> None:
        self.final_obs = final_obs

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((2, 2), np.float32), {}

    def step(self, actions: Any) -> Any:
        over = np.array([False, True])
        infos = {"final_obs": self.final_obs}
        return np.zeros((2, 2), np.float32), np.ones(2), over, ~over & False, infos


def sync(makers: list[Callable[[], gym.Env[Any, Any]]], mode: str = "SameStep") -> SyncVectorEnv:
    """Return Gymnasium's own batch in a mode."""
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode(mode))


def make_scripted_envs(
    script: Script, limit: int | None = None
) -> list[Callable[[], gym.Env[Any, Any]]]:
    """Return makers of the environments whose batch is `scripted_vector_env`."""
    return [partial(ScriptedEnv, *row, limit) for row in zip(*script, strict=True)]


def logged_returns(infos: dict[str, Any]) -> list[tuple[float, int]]:
    """Return what the on-policy scripts log in a step: return and length of each episode."""
    records = [final["episode"] for final in infos.get("final_info", ()) if final]
    return [(record["r"].item(), record["l"].item()) for record in records]
