"""Tasks with several players: what a pool returns and takes by player, as rows of environments.

Such a pool returns environments in the order in which its workers finish them, and observations and
rewards in one row for each player of each environment. It waits until `batch_size` environments are
ready, whatever was sent (envpool/core/async_envpool.h: ``is_sync_``). Here it returns small blocks,
and has a few spare environments, which are reset to fill the last block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.vector.utils import batch_space

from gymbridge.core.cores import count_cores
from gymbridge.core.spaces import ARRAY_SPACES
from gymbridge.envpool.layout import to_space
from gymbridge.errors import ArgumentError
from gymbridge.private.envpool import Exchange, Values, state_keys

__all__ = ["Players"]


class Players:
    """The players of a task, by EnvPool's spec of the task.

    Attributes:
        count: Number of players.
        take_turns: Whether one player moves in a step.
        infos: Keys of the arrays that `seat` adds to a pool's answers.
        num_spares: Number of environments that the pool has beyond those of the batch.
    """

    infos: Sequence[str] = ()
    num_spares = 0

    def __init__(self, task_id: str, spec: Any) -> None:
        self.count = count = spec.config.max_num_players
        keys = state_keys(spec)
        self.take_turns = count > 1 and "info:current_player" in keys
        if count == 1:
            return
        if not isinstance(spec.gymnasium_observation_space, ARRAY_SPACES):
            raise ArgumentError(
                f"`task_id` must be a task whose players observe one array each, got {task_id!r}, "
                f"whose {count} players observe a Dict; build another task."
            )
        self.infos, self._num_envs = ("info:rewards",), spec.config.num_envs
        self._is_async, self._num_blocks = spec.config.batch_size < self._num_envs, 1
        # A step of all fills its blocks; larger ones are slower to make than to receive.
        self._block = max(size for size in range(1, 9) if self._num_envs % size == 0)
        self.num_spares = 0 if self._is_async else self._block - 1
        self._spares = np.arange(self.num_spares, dtype=np.int32) + self._num_envs
        shapes = [spec.state_array_spec[key].shape for key in keys]
        # Which rows each array has: of environments, of players, or of the player to move.
        self._kinds = [int([*shape][:1] == [-1]) for shape in shapes]
        self._id, self._seat_id = map(keys.index, ("info:env_id", "info:players.env_id"))
        self._reward = keys.index("reward")
        if self.take_turns:
            self._kinds[keys.index("obs")] = 2
            self._to_move = keys.index("info:current_player")
            self._movers = np.zeros(self._num_envs, np.int32)  # who moves next, by environment

    def to_space(self, space: Any) -> Space[Any]:
        """Return the space of an environment, given one player's of EnvPool."""
        space = to_space(space)
        return space if self.count == 1 or self.take_turns else batch_space(space, self.count)

    def pool_keywords(self, num_threads: int) -> dict[str, int]:
        """Return the keywords of the pool that are not those of its spec."""
        if self.count == 1 or self._is_async:
            return {}
        # EnvPool would start no more threads than the environments of a block.
        num_threads = num_threads or min(self._num_envs, count_cores())
        return {"batch_size": self._block, "num_threads": num_threads}

    def seat(self, exchange: Exchange) -> Exchange:
        """Return the calls of a pool with one row for each environment, in the order of ids.

        Each player's rewards, (count, players), are added to its answers.
        """
        if self.count == 1:
            return exchange
        return exchange._replace(
            send=partial(self._send, exchange),
            receive=partial(self._receive, exchange.receive),
            reset=partial(self._reset, exchange),
        )

    def _send(self, exchange: Exchange, values: Values) -> None:
        ids, _, *leaves = values
        if not self.take_turns:
            moves = (leaf.reshape(-1, *leaf.shape[2:]) for leaf in leaves)
            values = [ids, np.repeat(ids, self.count), *moves]
        exchange.send(values)
        self._fill_block(exchange, ids)

    def _reset(self, exchange: Exchange, ids: np.ndarray) -> None:
        exchange.reset(ids)
        self._fill_block(exchange, ids)

    def _fill_block(self, exchange: Exchange, ids: np.ndarray) -> None:
        if not self._is_async:
            if lacking := -len(ids) % self._block:
                exchange.reset(self._spares[:lacking])
            self._num_blocks = (len(ids) + lacking) // self._block

    def _receive(self, receive: Callable[[], Values]) -> Values:
        blocks = [receive() for _ in range(self._num_blocks)]
        values = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
        ids = values[self._id]
        rows = ids.argsort()[: (ids < self._num_envs).sum()]  # without spares
        # The players of an environment lie together, in their order.
        seats = values[self._seat_id].argsort(kind="stable").reshape(-1, self.count)[: len(rows)]
        if not self.take_turns:
            found = self._take(values, rows, seats)
            found[self._reward] = found[-1].sum(axis=1)
            return found
        ids, to_move = ids[rows], values[self._to_move][rows]
        tables = np.arange(len(ids))
        found = self._take(values, rows, seats, seats[tables, to_move])
        found[self._reward] = found[-1][tables, self._movers[ids]]
        self._movers[ids] = to_move
        return found

    def _take(self, values: Values, *rows: np.ndarray) -> Values:
        """Return the answers, each in the rows of its kind, and then each player's reward.

        The rows are those of environments, those of players, (count, players), and those of the
        players to move.
        """
        found = [value[rows[kind]] for value, kind in zip(values, self._kinds, strict=True)]
        return [*found, found[self._reward]]
