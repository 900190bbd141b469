"""A task for the checker: random in all that it can be, with ends of both kinds."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from gymbridge.testing import Report

BROKEN_BY_SYNC = {"options-unchanged", "refused-step", "step-before-reset", "closed-refused"}
"""Extras that `SyncVectorEnv` itself breaks."""


class Walk(gym.Env[Any, Any]):
    """A random walk from a random place; it terminates where it leaves the interval (-1, 1)."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = spaces.Box(-3, 3, (3,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self, limit: int | None = None, render_mode: str | None = None) -> None:
        self.render_mode, self.limit = render_mode, limit
        self.place, self._step = np.zeros(2), 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self._step = self.np_random.uniform(-0.9, 0.9, 2), 0
        return self._observe(), {"steps": 0, "at": {"place": self.place.copy()}}

    def step(self, action: Any) -> Any:
        self._step += 1
        drift = self.np_random.uniform(-0.1, 0.1)
        self.place = self.place + np.array([(int(action) - 1) / 4, drift])
        reward = 1 + float(self.place[0])
        terminated = bool(abs(self.place[0]) > 1)
        info = {"steps": self._step, "at": {"place": self.place.copy()}}
        if terminated:
            info["is_out"] = True
        truncated = self._step == self.limit and not terminated
        return self._observe(), reward, terminated, truncated, info

    def render(self) -> Any:
        return np.full((2, 3, 3), self._step, np.uint8)

    def _observe(self) -> np.ndarray:
        return np.array([*self.place, self._step / 10], np.float32)


def _make_vector(
    num_envs: int,
    max_episode_steps: int | None = None,
    kind: type[SyncVectorEnv] = SyncVectorEnv,
    render_mode: str | None = None,
    **kwargs: Any,
) -> SyncVectorEnv:
    return kind([partial(Walk, max_episode_steps, render_mode)] * num_envs, **kwargs)


gym.register("CheckerWalk-v0", Walk, vector_entry_point=_make_vector, max_episode_steps=7)


def make_walks(mode: AutoresetMode | str, **kwargs: Any) -> VectorEnv[Any, Any, Any]:
    """Return four walks of 7 steps at most in `SyncVectorEnv`, or in the class `kind`."""
    return gym.make_vec("CheckerWalk-v0", 4, autoreset_mode=mode, render_mode="rgb_array", **kwargs)


def ids(report: Report, outcome: str) -> set[str]:
    """Return the rules with an outcome; a rule that was not reached must say why."""
    assert all(result.note for result in report.results if result.outcome == "not reached")
    return {result.id for result in report.results if result.outcome == outcome}
