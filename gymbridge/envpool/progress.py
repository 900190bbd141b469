"""How many steps the episodes of an asynchronous pool have, and which environments wait."""

from __future__ import annotations

import numpy as np

from gymbridge.core.episode import split_done, truncate_at_limit
from gymbridge.core.rows import has_rows

__all__ = ["Progress"]


class Progress:
    """What is known of each environment of an asynchronous pool since it was built.

    Where steps are cheap, Python's own work is a large part of the time. Indices are intp, which
    numpy looks up faster than int32, and numbers are arrays, which it adds and compares faster.

    Attributes:
        is_away: (num_envs,) bool, True where the environment is being stepped or reset, False where
            it waits for `send`.
        is_cut: (num_envs,) bool, True where the time limit ended the episode, which the pool does
            not know.
        coming: Number of environments that are being stepped or reset.
    """

    def __init__(self, num_envs: int, batch_size: int, limit: int | None) -> None:
        self.is_away, self.is_cut = np.zeros((2, num_envs), np.bool_)
        self.coming = 0
        # The step of its episode that each environment answers next, 0 where one begins.
        self._steps = np.zeros(num_envs, np.int64)
        self._limits = np.full(batch_size, limit or np.iinfo(np.int64).max, np.int64)
        self._zeros, self._ones = np.zeros_like(self._limits), np.ones_like(self._limits)

    def need_reset(self, rows: np.ndarray) -> np.ndarray:
        """Return for each of the waiting `rows` whether only a reset begins its next episode.

        Elsewhere the pool ended the last one, and the next step begins another.
        """
        return (self._steps[rows] != 0) | self.is_cut[rows]

    def note_resets(self, rows: np.ndarray) -> None:
        """Note that new episodes begin."""
        self._steps[rows], self.is_cut[rows] = 0, False
        self.note_sent(rows)

    def note_sent(self, rows: np.ndarray) -> None:
        """Note that environments are being stepped or reset."""
        self.is_away[rows] = True
        self.coming += len(rows)

    def note_answers(
        self, ids: np.ndarray, ended: np.ndarray, truncated: np.ndarray, rewards: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Note a batch of results, and return its terminations and truncations.

        Args:
            ids: (batch_size,) int32.
            ended: (batch_size,) bool, as the pool reports it; it may be returned as terminations.
            truncated: (batch_size,) bool, as the pool reports it; it may also be returned.
            rewards: (batch_size,) float32; set to 0 where an episode begins.
        """
        rows = ids.astype(np.intp)
        steps, terminated = self._steps[rows], ended
        begins = steps == self._zeros
        if has_rows(begins):  # Some tasks repeat a reward, or have NaN, as they begin.
            rewards[begins] = 0
        if has_rows(truncated):
            terminated, truncated = split_done(ended, truncated)
        is_late = steps >= self._limits
        if has_rows(is_late):
            self.is_cut[rows] = is_late & ~ended
            truncated = truncate_at_limit(terminated, truncated, steps, self._limits)
        steps += self._ones
        if has_rows(ended):
            steps[ended] = 0
        self._steps[rows], self.is_away[rows] = steps, False
        self.coming -= len(rows)
        return terminated, truncated
