"""EnvPool as a host `Simulator`: a thread pool of C++ environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import envpool
import numpy as np
from gymnasium import Space
from gymnasium.vector.utils import create_empty_array

from gymbridge.core.episode import ResetRequest, TimeStep, View
from gymbridge.core.rendering import DEFAULT_FPS
from gymbridge.envpool.keywords import read_config, read_task
from gymbridge.envpool.layout import Layout, copy_places
from gymbridge.envpool.players import Players
from gymbridge.envpool.pool import Pool, name_task, to_ids
from gymbridge.envpool.rendering import PoolRenderer, check_pixels
from gymbridge.envpool.tasks import UNDRAWN_FAMILIES, choose_threads, default_limit, limit_keywords
from gymbridge.errors import ArgumentError
from gymbridge.private.envpool import Values
from gymbridge.private.notices import quiet

__all__ = ["EnvPoolSimulator", "PoolAnswers"]


class PoolAnswers(NamedTuple):
    """What is kept of a pool's last answers; the episodes themselves live in the pool."""

    values: Values  # (num_envs, ...) arrays by place in the `Layout`, none of which is the user's
    turn: int  # turn of the pool in which it answered


class EnvPoolSimulator:
    """A batch of one EnvPool task. The pool is built by the first restart and by each new seed.

    `owner` is the class whose arguments these are, for errors. `kwargs` are the user's keywords of
    `envpool.make`. The pool answers with `batch_size` environments at a time, None for all.
    `players` says who plays the task.
    """

    seed_range = 2**31 - 1
    reset_options: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self,
        owner: str,
        task_id: str,
        num_envs: int,
        max_episode_steps: int | None,
        info_keys: Sequence[str] | str | None,
        kwargs: dict[str, Any],
        batch_size: int | None = None,
    ) -> None:
        self.num_envs = num_envs
        self._family = family = read_task(task_id)
        declared = read_config(task_id, kwargs, owner)
        check_pixels(family, kwargs)
        config = {"num_threads": choose_threads(family, num_envs), **kwargs}
        config["batch_size"] = batch_size or num_envs
        config |= limit_keywords(task_id, family, max_episode_steps, kwargs)
        self.task_limit = default_limit(task_id, declared["max_episode_steps"], kwargs)
        modes = [] if family in UNDRAWN_FAMILIES else ["rgb_array"]
        self.metadata: dict[str, Any] = {"render_modes": modes, "render_fps": DEFAULT_FPS}
        with name_task("describe", task_id), quiet():
            spec: Any = envpool.make_spec(task_id, num_envs=num_envs, **config)
            self.players = players = Players(task_id, spec)
            self.layout = Layout(spec, info_keys, players.infos)
            read = players.to_space
            self.single_observation_space: Space[Any] = read(spec.gymnasium_observation_space)
            self.single_action_space: Space[Any] = read(spec.gymnasium_action_space)
        # The spec, not the pool, whose calls would change episodes unnoticed.
        self.engine, self.built_with = spec, spec.config
        self._no_rows = np.zeros(num_envs, np.bool_)
        config |= players.pool_keywords(config["num_threads"])
        idle = create_empty_array(self.single_action_space, num_envs, np.zeros)
        self.pool = Pool(task_id, config, self.layout.action_leaves(idle), players)

    def restart(
        self, state: PoolAnswers | None, mask: np.ndarray, seeds: ResetRequest | None
    ) -> tuple[PoolAnswers, TimeStep]:
        """Begin new episodes under `mask`; see `gymbridge.core.episode.Simulator.restart`.

        Raises:
            ArgumentError: Seeds are given for some environments only, of a pool that is built.
            ResetNeededError: The last call was interrupted, and `mask` is not True everywhere.
        """
        is_full = bool(mask.all())
        if seeds is not None and seeds.given.any():
            _check_seeds(seeds, is_full)
            self.pool.build(seeds.values.tolist())
            state = None
        elif is_full and state is not None and state.turn != self.pool.turn:
            self.pool.drain()
            state = None
        if state is None:
            ((_, values),) = self.pool.begin(mask, self._no_rows)
        else:
            self.pool.begin_turn(state.turn)
            done = state.values[self.layout.done_place]
            values = _join(state.values, self.pool.begin(mask, done))
        values[self.layout.reward_place][mask] = 0
        return self._return(values)

    def advance(
        self,
        state: PoolAnswers,
        actions: Any,
        restart: np.ndarray | None,
        freeze: np.ndarray | None,
    ) -> tuple[PoolAnswers, TimeStep]:
        """Take one step; see `gymbridge.core.episode.Simulator.advance`."""
        self.pool.begin_turn(state.turn)
        leaves = self.layout.action_leaves(actions)
        done = state.values[self.layout.done_place]
        begins = self._no_rows if restart is None else restart & ~done
        stays = self._no_rows if freeze is None else freeze
        parts = self.pool.begin(begins, self._no_rows)
        if (ids := to_ids(~(begins | stays))).size:
            self.pool.send(ids, [leaf[ids] for leaf in leaves])
            parts.append((ids, self.pool.receive()))
        values = _join(state.values, parts)
        # The mujoco.dmc and mujoco.metaworld tasks repeat their last reward as they begin anew.
        still = stays if restart is None else stays | restart
        for place in self.layout.reward_places:
            values[place][still] = 0
        return self._return(values)

    def make_renderer(self, view: View) -> PoolRenderer:
        """Return the renderer of the pool's environments; see `PoolRenderer`."""
        return PoolRenderer(self.pool, self._family, view)

    def close(self) -> None:
        """Drop the pool."""
        self.pool.close()

    def _return(self, values: Values) -> tuple[PoolAnswers, TimeStep]:
        """Return the state and a time step that is the user's own."""
        kept = copy_places(values, self.layout.restarted_places)
        return PoolAnswers(kept, self.pool.turn), self.layout.read(values)


def _check_seeds(seeds: ResetRequest, is_full: bool) -> None:
    if not is_full:
        raise ArgumentError(
            "`seed` cannot be given with `options['reset_mask']`: EnvPool fixes seeds when the "
            "pool is built. Call `reset(seed=...)` without a mask."
        )
    if not seeds.given.all():
        raise ArgumentError(
            "`seed` must have an int for every environment of a pool that is built, got None for "
            f"environments {np.flatnonzero(~seeds.given).tolist()}: EnvPool fixes seeds when the "
            "pool is built. Give a seed to all environments or to none."
        )


def _join(values: Values, parts: list[tuple[np.ndarray, Values]]) -> Values:
    """Return a copy of `values` with the rows of each part replaced."""
    joined = [value.copy() for value in values]
    for ids, rows in parts:
        for value, row in zip(joined, rows, strict=True):
            value[ids] = row
    return joined
