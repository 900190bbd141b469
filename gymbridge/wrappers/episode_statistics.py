"""Return, length and duration of each episode."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.core.episode import TimeStep
from gymbridge.core.players import check_turns
from gymbridge.core.rows import has_rows
from gymbridge.core.snapshots import Snapshot
from gymbridge.wrappers.batch_wrapper import BatchWrapper, find_idle, find_moved
from gymbridge.wrappers.libraries import ArrayLibrary

__all__ = ["RecordEpisodeStatistics"]


class _Running(NamedTuple):
    """The episodes that run; every field is (num_envs,)."""

    returns: Any  # float, sum of rewards
    lengths: Any  # int, steps
    seconds: Any  # float, since the episode began
    idle: Any  # bool, ended and not yet begun again


class RecordEpisodeStatistics(BatchWrapper):
    """Return, length and duration of each episode in the step that ends it, on the batch's device.

    Each step adds these infos, without synchronising with the host; in numpy each that ends some::

        infos["episode"] = {"r": returns, "l": lengths, "t": seconds}   each (num_envs,)
        infos["_episode"]                                               (num_envs,) bool

    The keys are those of `gymnasium.wrappers.vector.RecordEpisodeStatistics`; values are 0 where no
    episode ended, and each episode is reported once. Returns are float32 or the dtype of rewards,
    float64 in numpy; lengths are integers, seconds float64, or float32 in jax without x64. A return
    has no gradient. `get_state` and `save_state` include the statistics of the running episodes.

    Args:
        env: A batch.
        stats_key: Key of the statistics in the infos.

    Raises:
        ArgumentTypeError: `env` is not a vector environment.
        ArgumentError: Rewards are clipped or normalised inside `env`, or its players take turns.
    """

    belongs_inside = ("ClipReward", "NormalizeReward")

    def __init__(self, env: VectorEnv[Any, Any, Any], stats_key: str = "episode") -> None:
        super().__init__(env, stats_key=stats_key)
        check_turns("env", env, type(self).__name__)
        self._key, self._name = stats_key, f"statistics {stats_key!r}"
        self._count, self._forget = map(self._library.compile, (_count, _forget))
        self._is_numpy = self._library.xp is np
        kinds = float if self._is_numpy else np.float32, int, float, np.bool_
        self._state = _Running(*(self._put(np.zeros(self.num_envs, kind)) for kind in kinds))
        self._last_call = time.perf_counter()

    def set_state(self, state: Snapshot) -> Any:
        """Restore batch and statistics; the time until now does not count."""
        obs = super().set_state(state)
        self._pass_time()
        return obs

    def _begin(self, obs: Any, rows: Any) -> Any:
        passed = self._pass_time()
        self._state = self._forget(self._library, self._mode, self._state, rows, passed)
        return obs

    def _follow(self, time_step: TimeStep, some: Any) -> TimeStep:
        values = time_step[1:4], some, self._pass_time()
        self._state, *counted = self._count(self._library, self._mode, self._state, *values)
        if self._is_numpy and not has_rows(counted[1]):
            return time_step
        infos = dict(zip((self._key, f"_{self._key}"), counted, strict=True))
        return time_step._replace(info={**time_step.info, **infos})

    def _pass_time(self) -> float:
        """Return the seconds since the last call; sums of them keep their digits for weeks."""
        before, self._last_call = self._last_call, time.perf_counter()
        return self._last_call - before


def _forget(
    library: ArrayLibrary, mode: AutoresetMode, running: _Running, rows: Any, passed: float
) -> _Running:
    """Return what runs after the rows of a mask begin anew."""
    where = library.xp.where
    return _Running(
        where(rows, 0, running.returns),
        where(rows, 0, running.lengths),
        where(rows, 0.0, running.seconds + passed),
        running.idle & ~rows,
    )


def _count(
    library: ArrayLibrary,
    mode: AutoresetMode,
    running: _Running,
    values: Any,
    some: Any,
    passed: float,
) -> tuple[_Running, dict[str, Any], Any]:
    """Return what runs after a step, the statistics of what it ended, and their mask."""
    where, ended, moved = library.xp.where, values[1] | values[2], find_moved(running.idle, some)
    counted = running._replace(
        returns=running.returns + where(moved, library.detach(values[0]), 0),
        lengths=running.lengths + where(moved, 1, 0),
        seconds=where(running.idle, 0.0, running.seconds + passed),
    )
    new = ended & moved
    statistics = {key: where(new, each, 0) for key, each in zip("rlt", counted, strict=False)}
    counted = _forget(library, mode, counted, ended, 0.0)
    return counted._replace(idle=find_idle(mode, ended)), statistics, new
