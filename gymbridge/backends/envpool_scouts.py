"""First states drawn ahead of time, so that SAME_STEP need not ask the pool a second time.

SAME_STEP shows the first state of the next episode in the step that ends an episode. To restart the
row there and then takes a second exchange with the pool, which costs nearly as much as the step of
a cheap task. Here another environment with the row's seed, its scout, has drawn that state already.
The row itself is late: it restarts in the exchange of the next step, just before it is stepped, and
has to show the same state.

That needs a pool of one worker, which does what it is sent in order, and with room for twice the
rows, since an exchange can then hold a row twice (envpool/core/async_envpool.h, state_buffer.h).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gymbridge.errors import SimulationError

if TYPE_CHECKING:
    from gymbridge.backends.envpool import EnvPoolSimulator
    from gymbridge.backends.envpool_layout import Layout

__all__ = ["Scouts", "check_begun", "check_late", "make_late_turn"]

_DEPTH = 4
"""How many episodes a scout may be ahead of its row."""

Values = list[np.ndarray]


class Scouts:
    """The second half of a pool's environments: scout i has the seed of row i and is only reset.

    So what a first state depends on must be drawn by resets alone, never by steps.

    Args:
        pool: Newly built, of 2 * num_envs environments.
        layout: The places of its arrays.
        num_envs: Size of the batch.
    """

    def __init__(self, pool: Any, layout: Layout, num_envs: int) -> None:
        self._pool = pool
        self._ids = np.arange(num_envs, 2 * num_envs, dtype=np.int32)
        self._places, self._obs_places = layout.drawn_places, layout.obs_places
        first = self._reset(self._ids)  # the states with which the rows begin
        # Place d * num_envs + i of these is for row i.
        self._banks = [np.concatenate([first[place]] * _DEPTH) for place in self._places]
        self._is_full = np.zeros(_DEPTH * num_envs, np.bool_)
        self._after = np.roll(np.arange(_DEPTH * num_envs), -num_envs)
        self._next = np.arange(num_envs)  # where each row takes its next state

    def take(self, ids: np.ndarray) -> list[np.ndarray]:
        """Return the first states of the next episodes of rows, in the order of `drawn_places`.

        Args:
            ids: (count,) int, each at most once.

        Returns:
            Arrays of (count, ...).
        """
        places = self._next.take(ids)
        if b"\x00" in self._is_full.take(places).tobytes():
            self._draw()
        self._is_full[places] = False
        self._next[ids] = self._after.take(places)
        return [bank.take(places, 0) for bank in self._banks]

    def check(self, ids: np.ndarray, answers: Values) -> None:
        """Take the first states of rows that have begun without their scouts, and compare.

        Args:
            ids: (count,) int, each at most once.
            answers: The pool's of those rows.

        Raises:
            SimulationError: Some began elsewhere.
        """
        drawn = self.take(ids)
        check_begun(ids, drawn[: len(self._obs_places)], answers, self._obs_places)

    def _draw(self) -> None:
        """Draw one more state for each row that may have more."""
        num_envs = len(self._ids)
        count = self._is_full.reshape(_DEPTH, num_envs).sum(0)
        rows = (count < _DEPTH).nonzero()[0]
        drawn = self._reset(self._ids[rows])
        places = (self._next + count * num_envs)[rows] % len(self._is_full)
        for bank, place in zip(self._banks, self._places, strict=True):
            bank[places] = drawn[place]
        self._is_full[places] = True

    def _reset(self, ids: np.ndarray) -> Values:
        self._pool._reset(ids)
        return self._pool._recv()


def check_begun(
    ids: np.ndarray, shown: list[np.ndarray], answers: Values, obs_places: list[int]
) -> None:
    """Raise unless rows began with the observations that were shown.

    Args:
        ids: (count,) int.
        shown: By place, (count, ...).
        answers: The pool's, of those rows first.
        obs_places: Where observations are.

    Raises:
        SimulationError: Some began elsewhere.
    """
    for rows, place in zip(shown, obs_places, strict=True):
        if answers[place][: len(ids)].tobytes() != rows.tobytes():
            raise SimulationError(
                f"Environments among {ids.tolist()} began their episodes elsewhere than was "
                "shown; call `reset()`, after which first states are not drawn ahead."
            )


def check_late(state: Any, answers: Values, obs_places: list[int]) -> None:
    """Raise unless late rows began with what their batch showed of them; see `check_begun`."""
    shown = [state.values[place].take(state.late, 0) for place in obs_places]
    check_begun(state.late, shown, answers, obs_places)


LateTurn = tuple[
    Callable[[np.ndarray, list[np.ndarray]], None], Callable[[Any, Values], list[np.ndarray]]
]
"""(late, action leaves) -> None, and (state, answers) -> the answers without the late restarts."""


def make_late_turn(simulator: EnvPoolSimulator) -> LateTurn:
    """Return how late rows are restarted with the step of all rows, and how the answers are read.

    Raises:
        SimulationError: By the second; see `check_begun`.
    """
    all_ids, obs_places = simulator.all_ids, simulator.layout.obs_places

    def ask(late: np.ndarray, leaves: list[np.ndarray]) -> None:
        rows = np.concatenate((late, all_ids))
        simulator.send([rows, rows, *[leaf.take(rows, 0) for leaf in leaves]])

    def read(state: Any, answers: Values) -> Values:
        check_late(state, answers, obs_places)
        count = len(state.late)
        return [answer[count:] for answer in answers]

    return ask, read
