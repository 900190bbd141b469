"""`SyncVectorEnv`s that write into what an earlier call returned, after more than one call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from tests.support.offenders import SAME, breaks
from tests.support.walks import Walk


def write(buffer: Any, value: Any) -> None:
    """Write a tree of arrays into another."""
    if isinstance(value, Mapping):
        for key in value:
            write(buffer[key], value[key])
    elif isinstance(value, tuple):
        for pair in zip(buffer, value, strict=True):
            write(*pair)
    else:
        buffer[...] = value


class Rings(SyncVectorEnv):
    """Returns some results of a step in a few buffers, in turn."""

    size = 2
    parts: tuple[int, ...] = (0,)
    keys: tuple[str, ...] = ()  # of infos

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rings: dict[Any, list[Any]] = {}

    def step(self, actions: Any) -> Any:
        returned = list(super().step(actions))
        infos = returned[-1]
        for part in self.parts:
            returned[part] = self._put(part, returned[part])
        for name in infos.keys() & {*self.keys}:
            infos[name] = self._put(name, infos[name])
        return tuple(returned)

    def _put(self, name: Any, value: Any) -> Any:
        ring = self._rings.setdefault(name, [])
        if len(ring) < self.size:
            ring.append(value)
            return value
        ring.append(ring.pop(0))
        write(ring[-1], value)
        return ring[-1]


FINAL_MASKS = ("_final_obs", "_final_info")
RINGS: dict[str, dict[str, Any]] = {
    "TwoObservationBuffers": {},
    "ThreeObservationBuffers": {"size": 3},
    "FiveObservationBuffers": {"size": 5},
    "TwoRewardBuffers": {"parts": (1,)},
    "TwoFlagBuffers": {"parts": (2, 3)},
    "ThreeInfoBuffers": {"size": 3, "parts": (), "keys": ("steps",)},
    "TwoMaskBuffers": {"parts": (), "keys": FINAL_MASKS, "modes": (SAME,)},
}
for _name, _ring in RINGS.items():  # under their names, so that they can be pickled
    _kind = type(_name, (Rings,), {**_ring, "__module__": __name__})
    globals()[_name] = breaks("ownership", modes=_ring.get("modes", ()))(_kind)


@breaks("ownership", modes=(SAME,))
class TwoFinalInfoBuffers(Rings):
    parts = ()

    def step(self, actions: Any) -> Any:
        *rest, infos = super().step(actions)
        for final in [infos["final_info"]] if "final_info" in infos else ():
            final["steps"] = self._put("steps", final["steps"])
        return *rest, infos


@breaks("ownership", modes=(SAME,))
class FinalViews(SyncVectorEnv):
    """Returns rows of one lasting array in `final_obs`."""

    _finals: Any = None

    def step(self, actions: Any) -> Any:
        *rest, infos = super().step(actions)
        if self._finals is None:
            self._finals = np.zeros((4, 3), np.float32)
        for env in np.flatnonzero(infos.get("_final_obs", False)):
            self._finals[env] = infos["final_obs"][env]
            infos["final_obs"][env] = self._finals[env]
        return *rest, infos


class TupleWalk(Walk):
    observation_space: Any = spaces.Tuple([Walk.observation_space, spaces.Box(-3, 3)])

    def _observe(self) -> Any:
        walk = super()._observe()
        return walk, walk[:1] / 2


class DictWalk(TupleWalk):
    observation_space = spaces.Dict({"walk": Walk.observation_space, "half": spaces.Box(-3, 3)})

    def _observe(self) -> Any:
        return dict(zip(("walk", "half"), super()._observe(), strict=True))


@breaks("ownership")
class DictBuffers(Rings):
    """Has two buffers for one entry of its observations."""

    entry: Any = "half"
    walk: type[Walk] = DictWalk
    parts = ()

    def __init__(self, env_fns: Any, **kwargs: Any) -> None:
        walks = [partial(self.walk, *env_fn.args) for env_fn in env_fns]
        super().__init__(walks, **kwargs)

    def step(self, actions: Any) -> Any:
        obs, *rest = super().step(actions)
        self._put("entry", obs[self.entry])
        ring = self._rings["entry"][-1]
        if isinstance(obs, dict):
            obs[self.entry] = ring
        else:
            obs = (*obs[: self.entry], ring)
        return obs, *rest


@breaks("ownership")
class TupleBuffers(DictBuffers):
    entry, walk = 1, TupleWalk


@breaks("ownership")
class BufferOfResets(SyncVectorEnv):
    """Returns the same array from each `reset`."""

    _first: Any = None

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        obs, infos = super().reset(seed=seed, options=options)
        if self._first is None:
            self._first = obs
        self._first[...] = obs
        return self._first, infos


@breaks("ownership")
class BufferOfFrames(SyncVectorEnv):
    """Draws into the same frames each time."""

    _frames: Any = None

    def render(self) -> Any:
        frames = super().render()
        if self._frames is None:
            self._frames = frames
        write(self._frames, frames)
        return self._frames
