"""Wrappers that change observations, final ones included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, create_empty_array

from gymbridge.core.arrays.adapter import map_arrays
from gymbridge.core.episode import TimeStep
from gymbridge.core.rows import has_rows, to_objects
from gymbridge.errors import EnvContractError
from gymbridge.wrappers.batch_wrapper import BatchWrapper, find_idle, find_moved
from gymbridge.wrappers.libraries import ArrayLibrary, map_leaves, select

__all__ = ["ObservationWrapper"]


class _Rule(NamedTuple):
    """What a wrapper is compiled for.

    `show` is a function of (library, options, memory, last, obs, moved, began) that returns what is
    remembered, and what is shown of `obs`. `last` was shown before. The mask `moved` has the rows
    that reached `obs` or began with it, and `began` those that began; other rows are ignored.
    """

    show: Callable[..., tuple[Any, Any]]
    mode: AutoresetMode
    options: Any


class _Seen(NamedTuple):
    """What a wrapper knows after a call."""

    memory: Any
    obs: Any  # (num_envs, ...), as shown last
    idle: Any  # (num_envs,) bool, ended and not yet begun again


class ObservationWrapper(BatchWrapper):
    """A wrapper with other observations; `show` is explained in `_Rule`.

    A class declares its `single_observation_space`, and then calls `_remember`.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], show: Any, **settings: Any) -> None:
        super().__init__(env, **settings)
        self._show = show
        self._see, self._advance = map(self._library.compile, (_see, _advance))

    def _remember(self, memory: Any) -> None:
        """Begin with a memory, a tree of numpy arrays."""
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        zeros: Any = create_empty_array(self.single_observation_space, self.num_envs, np.zeros)
        seen = _Seen(memory, map_leaves(np.asarray, zeros), np.zeros(self.num_envs, np.bool_))
        self._state = map_arrays(self._put, seen)

    def _options(self) -> Any:
        """Return what `show` takes besides arrays; it can be hashed."""
        return None

    def _begin(self, obs: Any, rows: Any) -> Any:
        rule = _Rule(self._show, self._mode, self._options())
        self._state = self._see(self._library, rule, self._state, obs, rows, rows)
        return self._current(obs)

    def _follow(self, time_step: TimeStep, some: Any) -> TimeStep:
        rule = _Rule(self._show, self._mode, self._options())
        infos, ended, reached = time_step.info, time_step[2:4], None
        is_numpy = self._library.xp is np
        if self._mode == AutoresetMode.SAME_STEP:
            reached = _find_reached(time_step) if is_numpy else infos["final_obs"]
        self._state, final = self._advance(
            self._library, rule, self._state, time_step.obs, reached, ended, some
        )
        if final is not None:
            final = to_objects(final, ended[0] | ended[1]) if is_numpy else final
            infos = {**infos, "final_obs": final}
        return time_step._replace(obs=self._current(time_step.obs), info=infos)

    def _current(self, obs: Any) -> Any:
        return map_arrays(self._library.copy, self._state.obs)


def _see(
    library: ArrayLibrary, rule: _Rule, seen: _Seen, obs: Any, moved: Any, began: Any
) -> _Seen:
    """Return what is known after observations that the rows of `moved` reached or began with."""
    memory, shown = rule.show(library, rule.options, seen.memory, seen.obs, obs, moved, began)
    return _Seen(memory, select(library, moved, shown, seen.obs), seen.idle & ~began)


def _advance(
    library: ArrayLibrary, rule: _Rule, seen: _Seen, obs: Any, reached: Any, flags: Any, some: Any
) -> tuple[_Seen, Any]:
    """Return what is known after a step, and final observations where it has `reached` some."""
    ended, final = flags[0] | flags[1], None
    moved = find_moved(seen.idle, some)
    if rule.mode == AutoresetMode.NEXT_STEP:
        moved = moved | seen.idle
    now = obs if reached is None else reached
    seen = _see(library, rule, seen, now, moved, seen.idle)
    if reached is not None:
        final = seen.obs
        seen = _see(library, rule, seen, obs, ended, ended)
    return seen._replace(idle=find_idle(rule.mode, ended)), final


def _find_reached(time_step: TimeStep) -> Any:
    """Return what each row reached in a SameStep step of numpy; None if no episode ended."""
    ended = time_step.terminated | time_step.truncated
    if not has_rows(ended):
        return None
    ids = ended.nonzero()[0]
    if "final_obs" not in time_step.info:
        raise EnvContractError(
            f"`env` ended the episodes of environments {ids.tolist()} without "
            "`infos['final_obs']`, as AutoresetMode.SAME_STEP requires; put this wrapper inside "
            "those with another layout of infos."
        )

    def fill(obs: Any, *rows: Any) -> Any:
        filled = obs.copy()
        filled[ids] = np.stack(rows)
        return filled

    return map_leaves(fill, time_step.obs, *(time_step.info["final_obs"][index] for index in ids))
