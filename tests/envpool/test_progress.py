"""What is noted of an asynchronous pool equals the plain rule of each environment."""

from __future__ import annotations

import numpy as np
import pytest

from gymbridge.envpool.progress import Progress

NUM_ENVS, BATCH = 5, 2


class OneEpisode:
    """The rule of one environment, in Python."""

    def __init__(self, limit: int | None) -> None:
        self.limit, self.steps, self.begins, self.cut = limit, 0, True, False

    def answer(self, ended: bool, truncated: bool, reward: float) -> tuple[bool, bool, float]:
        self.steps = 0 if self.begins else self.steps + 1
        reward = 0.0 if self.begins else reward
        is_late = self.limit is not None and self.steps >= self.limit
        terminated = ended and not truncated
        self.begins = ended or is_late
        self.cut = is_late and not ended
        return terminated, (ended and truncated) or (is_late and not terminated), reward


@pytest.mark.parametrize("limit", [None, 1, 2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_progress__is_that_of_each_environment(limit: int | None, seed: int) -> None:
    rng = np.random.default_rng(seed)
    progress, episodes = Progress(NUM_ENVS, BATCH, limit), [OneEpisode(limit) for _ in range(5)]
    progress.note_resets(np.arange(NUM_ENVS))
    away = list(range(NUM_ENVS))
    for _ in range(60):
        assert progress.coming == len(away)
        ids = rng.choice(away, BATCH, replace=False).astype(np.int32)
        away = [env for env in away if env not in ids]
        ended, truncated = rng.random((2, BATCH)) < 0.2
        rewards = np.full(BATCH, np.inf, np.float32)  # inf * 0 is NaN
        wanted = [
            episodes[env].answer(*flags, np.inf)
            for env, *flags in zip(ids.tolist(), ended.tolist(), truncated.tolist(), strict=True)
        ]
        found = *progress.note_answers(ids, ended, truncated, rewards), rewards
        assert [*zip(*(part.tolist() for part in found), strict=True)] == wanted
        assert not progress.is_away[ids].any()
        assert progress.is_away[away].all()
        assert progress.is_cut[ids].tolist() == [episodes[env].cut for env in ids]
        renewed = [episodes[env].begins and not episodes[env].cut for env in ids]
        assert progress.are_renewed(ids).tolist() == renewed
        resets = progress.is_cut[ids] | (rng.random(BATCH) < 0.1)
        progress.note_resets(ids[resets])
        progress.note_sent(ids[~resets])
        for env in ids[resets]:
            episodes[env].begins, episodes[env].cut = True, False
        away += ids.tolist()


@pytest.mark.parametrize("limit", [None, 1, 2**31 - 1])
def test_flags__are_the_caller_s_own(limit: int | None) -> None:
    progress = Progress(3, 2, limit)
    progress.note_resets(np.arange(3))
    for _ in range(3):
        ids, flags = np.array([2, 0], np.int32), np.zeros((2, 2), np.bool_)
        terminated, truncated = progress.note_answers(ids, *flags, np.ones(2, np.float32))
        cut = progress.is_cut.copy()
        terminated[:] = truncated[:] = True
        assert not np.shares_memory(terminated, truncated)
        np.testing.assert_array_equal(progress.is_cut, cut)
        assert not progress.are_renewed(ids).any()
        progress.note_sent(ids)
