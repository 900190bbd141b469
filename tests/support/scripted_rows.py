"""The environments of a scripted batch, one by one: what references and the oracle step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np

from gymbridge.testing import ScriptedEnv, ScriptedSimulator
from tests.support.batches import HOST_LENGTHS, HOST_TRUNCATES, KIND_LENGTHS, KIND_TRUNCATES
from tests.support.oracle import Answer

__all__ = ["EchoSimulator", "OwnScripted", "make_brax_env", "make_host_env"]


class EchoSimulator(ScriptedSimulator):
    """A scripted simulator with a method to call."""

    def echo(self, value: Any) -> Any:
        return value


@cache
def _draw_on_brax(seed: int, episode: int) -> np.uint32:
    from gymbridge.testing.scripted_brax import episode_draw

    return episode_draw(seed, episode)


def make_host_env(
    lengths: Sequence[int], truncates: Sequence[bool], limit: int | None = None
) -> ScriptedEnv:
    """Return one environment of a batch on the host, by its row of the tables."""

    def plan(seed: int, episode: int) -> tuple[int, bool]:
        column = episode % len(lengths)
        return int(lengths[column]), bool(truncates[column])

    return _own_metadata(ScriptedEnv(plan, limit=limit))


def make_brax_env(limit: int | None = None) -> gym.Env[Any, Any]:
    """Return one environment of the batch through Brax."""

    def plan(seed: int, episode: int) -> tuple[int, bool]:
        kind = int(_draw_on_brax(seed, episode)) % len(KIND_LENGTHS)
        return KIND_LENGTHS[kind], KIND_TRUNCATES[kind]

    return _BraxInfos(_own_metadata(ScriptedEnv(plan, draw=_draw_on_brax, limit=limit)))


def _own_metadata(env: ScriptedEnv) -> ScriptedEnv:
    env.metadata = dict(env.metadata)  # Gymnasium 1.2 writes the mode into a shared one
    return env


class _BraxInfos(gym.Wrapper[Any, Any, Any, Any]):
    """A reference environment with the infos of the Brax script.

    It has no number of the episode, its sum is int32, and Brax's own ``truncation`` and our
    ``nonfinite`` come on top.
    """

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(**kwargs)
        return obs, self._translate(obs, info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, *rest, info = self.env.step(action)
        return obs, *rest, self._translate(obs, info)

    def _translate(self, obs: Any, info: dict[str, Any]) -> dict[str, Any]:
        kind = int(info["draw"]) % len(KIND_LENGTHS)
        cut = KIND_TRUNCATES[kind] and obs >= KIND_LENGTHS[kind]
        return {
            "draw": info["draw"],
            "script": {"total": np.int32(info["script"]["total"])},
            "truncation": np.float32(cut),
            "nonfinite": False,
        }


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
            self._env = make_host_env(HOST_LENGTHS[row], HOST_TRUNCATES[row])
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
