"""Episode statistics beside their values, which `test_values.py` has: seconds, snapshots, masks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from gymnasium.vector import VectorWrapper

from gymbridge.errors import ArgumentError
from gymbridge.wrappers import RecordEpisodeStatistics
from tests.support.batches import make_batch, shared_batch, to_numpy

ACTIONS = np.ones(4, np.int64)
"""Of a step of a scripted batch, in every kind of arrays."""


def test_statistics__have_no_gradient() -> None:
    torch = pytest.importorskip("torch")
    batch = make_batch("fast", num_envs=2, limit=1, arrays="torch", differentiable=True)
    envs = RecordEpisodeStatistics(batch)
    envs.reset(seed=0)
    obs, rewards, *_, infos = envs.step(torch.zeros(2, 1, requires_grad=True))
    assert rewards.requires_grad
    assert obs.requires_grad
    assert not infos["episode"]["r"].requires_grad


def test_mask__may_be_written_after_a_reset(arrays: str) -> None:
    envs = RecordEpisodeStatistics(shared_batch("host", limit=-1, arrays=arrays))
    mask = np.zeros(64 + 4, np.bool_)
    mask = mask[-mask.ctypes.data % 64 :][:4]  # aligned, so that jax could share its memory
    for _ in range(30):
        envs.reset(seed=0)
        envs.step(ACTIONS)
        mask[:] = [True, False, False, False]
        envs.reset(options={"reset_mask": mask})
        mask[:] = True
        lengths = np.zeros(4, int)
        for _ in range(4):
            infos = to_numpy(envs.step(ACTIONS)[4])
            lengths = np.where(infos["_episode"] & (lengths == 0), infos["episode"]["l"], lengths)
        assert lengths.tolist() == [3, 3, 0, 5]


def test_seconds__keep_their_digits_for_days(arrays: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(1e6, 0.25)  # each call a quarter of a second after the last one
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    envs = RecordEpisodeStatistics(make_batch("host", "SameStep", limit=-1, arrays=arrays))
    envs.reset(seed=0)
    infos = [to_numpy(envs.step(ACTIONS)[4]) for _ in range(5)]
    assert infos[0]["episode"]["t"].tolist() == [0, 0, 0.25, 0]
    assert infos[1]["episode"]["t"].tolist() == [0.5, 0, 0, 0]


def test_snapshot__has_the_key_of_the_statistics() -> None:
    """`test_wrappers.py` has snapshots of running episodes."""
    envs = RecordEpisodeStatistics(shared_batch("brax", arrays="jax"))
    envs.reset(seed=0)
    state = envs.get_state()
    with pytest.raises(ArgumentError, match="the snapshot's has statistics 'episode'"):
        envs.unwrapped.set_state(state)
    with pytest.raises(ArgumentError, match="has statistics 'episode'=nothing"):
        envs.set_state(envs.unwrapped.get_state())
    with pytest.raises(ArgumentError, match="one, which has statistics 'other'"):
        RecordEpisodeStatistics(envs.env, "other").set_state(state)


class Between(VectorWrapper):
    """A wrapper whose state, if it has one, nobody knows."""


def test_snapshot__through_what_would_be_lost_is_refused() -> None:
    batch = shared_batch("brax", arrays="jax")
    batch.reset(seed=0)
    with pytest.raises(ArgumentError, match="would lose the state of Between"):
        RecordEpisodeStatistics(Between(batch)).get_state()
    with pytest.raises(ArgumentError, match="Two wrappers here are statistics 'episode'"):
        RecordEpisodeStatistics(RecordEpisodeStatistics(batch)).get_state()
    twice = RecordEpisodeStatistics(RecordEpisodeStatistics(batch), "again")
    twice.reset(seed=0)
    twice.step(ACTIONS)
    state = twice.get_state()
    twice.set_state(state)
    assert twice.get_state().leaves.keys() == state.leaves.keys()


def test_snapshot__goes_from_jax_to_torch_with_torch_s_dtypes() -> None:
    pytest.importorskip("torch")
    envs, after = (
        RecordEpisodeStatistics(shared_batch("brax", "SameStep", arrays=kind))
        for kind in ("jax", "torch")
    )
    for batch in (envs, after):
        batch.reset(seed=0)
        batch.step(ACTIONS)
    fresh = after.step(ACTIONS)[4]["episode"]
    after.set_state(envs.get_state())
    found = after.step(ACTIONS)[4]["episode"]
    assert {key: x.dtype for key, x in found.items()} == {key: x.dtype for key, x in fresh.items()}
