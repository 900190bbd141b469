"""The environments of a scripted batch, one by one: what references and the oracle step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymbridge.testing import ScriptedSimulator, draw_number
from tests.support.batches import HOST_LENGTHS, HOST_TRUNCATES, KIND_LENGTHS, KIND_TRUNCATES
from tests.support.oracle import Answer


class EchoSimulator(ScriptedSimulator):
    """A scripted simulator with a method to call."""

    def echo(self, value: Any) -> Any:
        return value


class ScriptedEnv(gym.Env[Any, Any]):
    """The task of a `ScriptedSimulator` as one environment: the reference to compare a batch with.

    Args:
        lengths: Steps of each episode; after the last comes the first again.
        truncates: For each, True where the task truncates it instead of terminating it.
        limit: The user's time limit in steps, or None. An episode that terminates on the last
            allowed step is not truncated.
    """

    observation_space = spaces.Box(0, np.inf, (), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(
        self, lengths: Sequence[int], truncates: Sequence[bool], limit: int | None = None
    ) -> None:
        self.metadata = dict(self.metadata)  # Gymnasium 1.2 writes the mode into a shared one
        self._lengths, self._truncates, self._limit = lengths, truncates, limit
        self._seed, self._episode, self._step, self._total = 0, -1, 0, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self._seed, self._episode = seed, -1
        self._episode, self._step, self._total = self._episode + 1, 0, 0
        return np.asarray(np.float32(0)), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step, self._total = self._step + 1, self._total + int(action)
        column = self._column()
        over = self._step >= self._lengths[column]
        late = self._limit is not None and self._step >= self._limit
        terminated = over and not self._truncates[column]
        reward = float(np.float32(action + self._step / 4))
        truncated = (over or late) and not terminated
        return np.asarray(np.float32(self._step)), reward, terminated, truncated, self._info()

    def _column(self) -> int:
        return self._episode % len(self._lengths)

    def _info(self) -> dict[str, Any]:
        script = {"episode": np.int32(self._episode), "total": np.int64(self._total)}
        return {"draw": np.uint32(draw_number(self._seed, self._episode)), "script": script}


class ScriptedBraxRow(ScriptedEnv):
    """The task of a `ScriptedBraxEnv`: the number that an episode draws picks its kind."""

    def _column(self) -> int:
        return int(_draw_on_brax(self._seed, self._episode)) % len(self._lengths)

    def _info(self) -> dict[str, Any]:
        column = self._column()
        cut = self._truncates[column] and self._step >= self._lengths[column]
        return {
            "draw": _draw_on_brax(self._seed, self._episode),
            "script": {"total": np.int32(self._total)},
            "truncation": np.float32(cut),  # Brax's own
            "nonfinite": False,
        }


@cache
def _draw_on_brax(seed: int, episode: int) -> np.uint32:
    from tests.support.scripted_brax import episode_draw

    return episode_draw(seed, episode)


def make_brax_env(limit: int | None = None) -> ScriptedEnv:
    """Return one environment of the batch through Brax."""
    return ScriptedBraxRow(KIND_LENGTHS, KIND_TRUNCATES, limit)


class OwnScripted:
    """One environment of the batches of `tests/support/batches.py`, as the oracle steps it.

    Args:
        engine: "host" or "brax".
        row: Its place in the batch.
    """

    def __init__(self, engine: str, row: int) -> None:
        if engine == "brax":
            self._env = make_brax_env()
        else:
            self._env = ScriptedEnv(HOST_LENGTHS[row], HOST_TRUNCATES[row])
        self._seed: int | None = None

    def seed(self, seed: int) -> None:
        """Let the next episode be the first one of a seed, given as a user gives it."""
        if seed >= 2**32:  # docs/explanation/seeds.md says what an engine gets for it
            seed = int(np.random.SeedSequence(seed).generate_state(1)[0]) % 2**32
        self._seed = seed

    def begin(self) -> Answer:
        obs, info = self._env.reset(seed=self._seed)
        self._seed = None
        return Answer(obs, 0.0, False, False, info)

    def step(self, action: Any) -> Answer:
        return Answer(*self._env.step(action))
