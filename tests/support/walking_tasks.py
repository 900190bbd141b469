"""Tasks that keep every rule and are unlike the walk: spaces, infos, ends and randomness."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from tests.support.walks import Walk


class ShortWalk(Walk):
    """A walk of 5 steps at most."""

    def __init__(self) -> None:
        super().__init__(5)


SEEN: dict[str, tuple[gym.Space[Any], Callable[[np.ndarray], Any]]] = {
    "graph": (  # which has no dtype and no fixed shape
        spaces.Graph(spaces.Box(-3, 3, (1,)), spaces.Discrete(2)),
        lambda seen: spaces.GraphInstance(seen[:, None].copy(), None, None),
    ),
    "text": (spaces.Text(12, charset="0123456789.-e"), lambda seen: f"{seen[0]:.4f}"),
    "list": (
        spaces.Sequence(spaces.Box(-3, 3, (1,))),
        lambda seen: tuple(np.array([number], np.float32) for number in seen),
    ),
    "one of two": (
        spaces.OneOf([spaces.Box(-3, 3, (3,)), spaces.Discrete(9)]),
        lambda seen: (np.int64(0), seen),
    ),
    "16 bits": (spaces.Box(-3, 3, (3,), np.float16), lambda seen: seen.astype(np.float16)),
    "nothing": (spaces.Box(-3, 3, (3,), np.float32), lambda seen: 0 * seen),
}
"""Spaces, and what is observed in them of the three numbers of a walk."""


class Observes(ShortWalk):
    """Observes one of `SEEN`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name, self.observation_space = name, SEEN[name][0]

    def _observe(self) -> Any:
        return SEEN[self._name][1](super()._observe())


class SideWalk(ShortWalk):
    """Observes only on which of two sides it is, so that much is equal by chance."""

    observation_space = spaces.Discrete(2)

    def _observe(self) -> Any:
        return int(self.place[0] > 0)


class LostWalk(ShortWalk):
    """Has no rewards that are numbers."""

    def step(self, action: Any) -> Any:
        obs, _, *rest = super().step(action)
        return obs, float("nan"), *rest


class InfoWalk(ShortWalk):
    """Has infos that change from run to run, or cannot be copied, compared or used as names."""

    def reset(self, **kwargs: Any) -> Any:
        obs, infos = super().reset(**kwargs)
        return obs, infos | self._infos()

    def step(self, action: Any) -> Any:
        *rest, infos = super().step(action)
        return *rest, infos | self._infos()

    def _infos(self) -> dict[Any, Any]:
        things = {"lock": threading.Lock(), "object": object(), "list": [1, 2], "set": {1}}
        return things | {"time": time.perf_counter(), 5: 3, "text": "a", "none": None}


class SpaceOfItsOwn(gym.Space[Any]):
    """A space that is not equal to a copy of itself, and that Gymnasium knows nothing about."""

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        return 0.5

    def contains(self, x: Any) -> bool:
        return True

    @property
    def is_np_flattenable(self) -> bool:
        return False


class ActionsOfItsOwn(ShortWalk):
    """Takes actions that Gymnasium knows nothing about."""

    action_space = SpaceOfItsOwn()

    def step(self, action: Any) -> Any:
        return super().step(1 + (action > 0))


class Level(ShortWalk):
    """Draws where it begins where it gets a seed, and begins there until the next."""

    start: Any = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        infos = super().reset(seed=seed)[1]
        if seed is not None or self.start is None:
            self.start = self.place
        self.place = self.start
        return self._observe(), infos | {"at": {"place": self.place}}


class Refuses(ShortWalk):
    """Refuses to be stepped after its end."""

    over = True

    def reset(self, **kwargs: Any) -> Any:
        self.over = False
        return super().reset(**kwargs)

    def step(self, action: Any) -> Any:
        assert not self.over
        found = super().step(action)
        self.over = found[2] or found[3]
        return found


class RoundTrip(gym.Env[Any, Any]):
    """Always begins in the same place, and ends there."""

    observation_space, action_space = spaces.Discrete(5), spaces.Discrete(2)
    _place = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._place = 0
        return 0, {"phase": 0}

    def step(self, action: Any) -> Any:
        self._place = (self._place + 1) % 5
        return self._place, 1.0, self._place == 0, False, {"phase": self._place}


class Bandit(gym.Env[Any, Any]):
    """Shows one of two contexts in turn; ends at times."""

    observation_space, action_space = spaces.Discrete(2), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return int(self.np_random.integers(2)), {}

    def step(self, action: Any) -> Any:
        terminated, truncated = (self.np_random.random(2) < [0.03, 0.02]).tolist()
        obs = int(self.np_random.integers(2))
        return obs, 0.0, terminated, truncated and not terminated, {}


class DifferentBounds(ShortWalk):
    """Has observations with bounds of its own."""

    def __init__(self, scale: int) -> None:
        super().__init__()
        self._scale = scale
        self.observation_space = spaces.Box(-3 * scale, 3 * scale, (3,), np.float32)

    def _observe(self) -> Any:
        return super()._observe() * np.float32(self._scale)


TASKS = (
    *(partial(Observes, name) for name in SEEN),
    *(SideWalk, LostWalk, InfoWalk, ActionsOfItsOwn, Level, Refuses, RoundTrip, Bandit),
)
