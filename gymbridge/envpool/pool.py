"""The environments of one EnvPool task, and the exchanges that move their episodes.

A pool restarts an ended row by itself on that row's next step. Rows that ended for another reason
must not take that step, since it would draw random numbers and the next episode would begin
elsewhere: they are reset by id, and only the others are stepped by id. Both in one exchange would
land in the same slots, so each is received before the other is sent.
(envpool/core/async_envpool.h, worker loop: ``reset = force_reset || IsDone()``.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import envpool
import numpy as np
from envpool.registration import registry

from gymbridge.envpool.players import Players
from gymbridge.errors import GymbridgeError, ResetNeededError, SimulationError
from gymbridge.private.envpool import Values, make_exchange

__all__ = ["Pool", "name_task", "task_family", "to_ids"]


class Pool:
    """The environments of one task; `build` makes them, and a further `build` replaces them.

    A pool cannot be asked what it has done. Therefore `turn` counts the calls that change episodes.
    After a call that Ctrl-C or an error interrupted, the user's state has an earlier turn, as has a
    state with which somebody else went on. `idle` are actions by leaf, each (num_envs, ...), for
    steps that ignore actions. `players` decide how rows are exchanged.
    """

    def __init__(
        self, task_id: str, config: dict[str, Any], idle: Values, players: Players
    ) -> None:
        self.all_ids = np.arange(len(idle[0]), dtype=np.int32)
        self.turn, self.is_closed = 0, False
        self._task_id, self._config, self._idle = task_id, config, idle
        self._players, self._seeds = players, list[int]()
        self._exchange: Any = None  # An `Exchange` after `build`.
        # Makes the context in which a pool must be deleted whose environments have been drawn.
        self.within: Any = nullcontext

    def build(self, seeds: list[int]) -> None:
        """Start the environments, each with its seed."""
        if task_family(self._task_id) == "vizdoom":
            # Games that start together crash if each of them makes this folder.
            with suppress(OSError):
                Path("_vizdoom").mkdir()
        # Always a list: given an int, Procgen's games depend on more than their own seed.
        of_all = seeds + [0] * self._players.num_spares
        with name_task("build", self._task_id):
            engine = envpool.make_gymnasium(
                self._task_id, num_envs=len(of_all), seed=of_all, **self._config
            )
        exchange, old = self._players.seat(make_exchange(engine)), self._exchange
        # In one statement, so that an interrupt leaves all or none.
        self._exchange, self._seeds, self.turn = exchange, seeds, self.turn + 1
        with self.within():
            del old

    def close(self) -> None:
        """Drop the environments; the destructor joins their threads."""
        self.is_closed = True
        with self.within():
            self._exchange = None

    def begin_turn(self, turn: int) -> None:
        """Count a call that changes the episodes, after `check_turn`."""
        self.check_turn(turn)
        self.turn += 1

    def check_turn(self, turn: int) -> None:
        """Raise `ResetNeededError` if the episodes have changed since that turn."""
        if turn != self.turn:
            raise ResetNeededError(
                "The episodes are not where this batch left them: its last call was interrupted, "
                "or the functions of `functional()` have gone on with them. Call `reset()`."
            )

    def render(self, width: int, height: int, camera: int) -> np.ndarray:
        """Return a frame of each environment, (num_envs, height, width, 3) uint8.

        This is what EnvPool draws in C++. Its Jumanji tasks have a viewer in Python as well, which
        knows only the states that pass through EnvPool's own `step`.
        """
        return self._exchange.render(self.all_ids, width, height, camera)

    def drain(self) -> None:
        """Receive the results that an interrupted call left in the pool, if there are any."""
        self.turn += 1
        if self._players.count > 1:  # Such a pool would wait for more.
            self.build(self._seeds)
        else:
            while len(self.receive()[0]):
                pass

    def send(self, ids: np.ndarray, actions: list[np.ndarray]) -> None:
        """Step the environments `ids`, (count,) int32; actions by leaf are contiguous."""
        self._exchange.send([ids, ids, *actions])

    def receive(self) -> Values:
        """Wait for the results of what was sent, and return them."""
        return self._exchange.receive()

    def send_renewal(self, ids: np.ndarray) -> None:
        """Step the environments `ids`, whose episodes the pool ended, so that it restarts them.

        Where a lost life ends an episode, this step continues the game. A reset by id would begin a
        new game (atari_env.h, vizdoom_env.h: ``Reset``).
        """
        self.send(ids, self.idle_actions(ids))

    def idle_actions(self, ids: np.ndarray) -> list[np.ndarray]:
        """Return one action for each of `ids`, for steps that ignore actions."""
        return [leaf[: len(ids)] for leaf in self._idle]

    def send_reset(self, ids: np.ndarray) -> None:
        """Begin new episodes in the environments `ids`."""
        self._exchange.reset(ids)

    def begin(self, mask: np.ndarray, done: np.ndarray) -> list[tuple[np.ndarray, Values]]:
        """Begin new episodes under `mask`, and return pairs of ids and their results.

        `done` is (num_envs,) bool, True where the pool itself ended the episode.
        """
        parts = []
        for rows, send in ((mask & done, self.send_renewal), (mask & ~done, self.send_reset)):
            if (ids := to_ids(rows)).size:
                send(ids)
                parts.append((ids, self.receive()))
        return parts


def to_ids(mask: np.ndarray) -> np.ndarray:
    """Return the ids of the environments under a mask, (count,) int32, as a pool takes them."""
    return mask.nonzero()[0].astype(np.int32)


def task_family(task_id: str) -> str:
    """Return the package below ``envpool`` that holds a task of the installed EnvPool."""
    return registry.specs[task_id][0].removeprefix("envpool.")


@contextmanager
def name_task(verb: str, task_id: str) -> Iterator[None]:
    """Turn errors of EnvPool into a `SimulationError` that names the task."""
    try:
        yield
    except GymbridgeError:
        raise
    except Exception as error:
        raise SimulationError(
            f"EnvPool cannot {verb} {task_id!r}: {type(error).__name__}: {error}"
        ) from error
