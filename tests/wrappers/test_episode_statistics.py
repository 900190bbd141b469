"""Episode statistics on the device are those of Gymnasium's own wrapper on numpy."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import VectorWrapper
from gymnasium.wrappers.vector import RecordEpisodeStatistics as NumpyStatistics

from gymbridge.errors import ArgumentError, ResetNeededError
from gymbridge.wrappers import RecordEpisodeStatistics
from tests.support.batches import Cell, cells, make_batch, shared_batch, to_numpy
from tests.support.player import calls
from tests.support.trees import assert_same

ACTIONS = np.ones(4, np.int64)
"""Of a step of a scripted batch, in every kind of arrays."""


@pytest.mark.parametrize("cell", cells(("host", "fast", "envpool", "two_devices")))
def test_statistics__are_gymnasium_s(cell: Cell) -> None:
    engine, arrays, mode = cell
    pytest.importorskip(arrays)
    limit = 7 if engine == "envpool" else 4
    wanted = collect(NumpyStatistics(shared_batch(engine, mode, limit=limit)))
    found = collect(RecordEpisodeStatistics(shared_batch(engine, mode, limit=limit, arrays=arrays)))
    assert len(found) == len(wanted) > 20
    some = 0
    for (episode, counted, over), (wanted_episode, wanted_counted, _) in zip(
        found, wanted, strict=True
    ):
        np.testing.assert_array_equal(counted, over)
        assert arrays != "numpy" or (episode is None) == (wanted_episode is None)
        if wanted_episode is None:
            assert not counted.any()
            continue
        some += int(counted.sum())
        np.testing.assert_array_equal(counted, wanted_counted)
        np.testing.assert_allclose(episode["r"], wanted_episode["r"], rtol=1e-6)
        np.testing.assert_array_equal(episode["l"], wanted_episode["l"])
        assert (episode["t"][counted] > 0).all()
        assert (episode["t"][~counted] == 0).all()
    assert some > 10


def collect(envs: Any) -> list[Any]:
    """Return (statistics or None, counted, over) of each step of a run."""
    steps = [call.found for call in calls(envs, 24) if not call.is_reset]
    none = np.zeros(envs.num_envs, np.bool_)
    return [
        (infos.get("episode"), infos.get("_episode", none), terminations | truncations)
        for *_, terminations, truncations, infos in steps
    ]


def test_statistics__of_a_held_row_are_counted_once(arrays: str) -> None:
    envs = RecordEpisodeStatistics(make_batch("brax", "Disabled", limit=2, arrays=arrays))
    envs.reset(seed=0)
    counted = [to_numpy(envs.step(ACTIONS)[4]["_episode"]) for _ in range(5)]
    assert np.sum(counted, 0).tolist() == [1, 1, 1, 1]
    envs.reset(options={"reset_mask": np.array([True, False, True, False])})
    counted = [to_numpy(envs.step(ACTIONS)[4]) for _ in range(5)]
    assert np.sum([infos["_episode"] for infos in counted], 0).tolist() == [1, 0, 1, 0]
    assert sum(infos["episode"]["l"] for infos in counted).max() <= 2


def test_statistics__forget_what_a_reset_cut(arrays: str) -> None:
    envs = RecordEpisodeStatistics(make_batch("host", "NextStep", limit=-1, arrays=arrays))
    envs.reset(seed=0)
    envs.step(ACTIONS)
    envs.reset(seed=0)
    lengths = np.zeros(4)
    for _ in range(6):
        infos = to_numpy(envs.step(ACTIONS)[4])
        lengths = np.where((lengths == 0) & infos["_episode"], infos["episode"]["l"], lengths)
    assert lengths.tolist() == [2, 3, 1, 5]


def test_statistics__belong_to_the_user(arrays: str) -> None:
    if arrays == "jax":
        pytest.skip("jax arrays cannot be written")
    envs = RecordEpisodeStatistics(shared_batch("host", "SameStep", limit=4, arrays=arrays))
    runs = []
    for is_spoilt in (False, True):
        envs.reset(seed=0)
        runs.append([])
        for _ in range(8):
            *_, infos = envs.step(ACTIONS)
            episode = infos["episode"]
            runs[-1].append((to_numpy(episode["r"]), to_numpy(episode["l"])))
            if is_spoilt:
                for leaf in (episode["r"], episode["l"], episode["t"]):
                    leaf.fill_(93)
                infos["_episode"].fill_(True)
    np.testing.assert_array_equal(*[np.array(run) for run in runs])


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


def test_pickle__is_the_construction(arrays: str) -> None:
    envs = RecordEpisodeStatistics(make_batch("host", "SameStep", arrays=arrays), "statistics")
    twin = pickle.loads(pickle.dumps(envs))
    twin.reset(seed=0)
    assert "statistics" in twin.step(ACTIONS)[4]


@pytest.mark.parametrize(
    ("engine", "arrays", "mode"),
    [
        ("brax", "torch", "NextStep"),
        ("brax", "jax", "SameStep"),
        ("two_devices", "jax", "SameStep"),
    ],
)
def test_snapshot__has_the_statistics_of_running_episodes(
    engine: str, arrays: str, mode: str, tmp_path: Path
) -> None:
    pytest.importorskip(arrays)
    envs = RecordEpisodeStatistics(make_batch(engine, mode, arrays=arrays))
    with pytest.raises(ResetNeededError):
        envs.get_state()
    envs.reset(seed=0)
    envs.save_state(tmp_path / "first")  # before any step
    first = play_on(envs)
    envs.load_state(tmp_path / "first")
    assert_same(play_on(envs), first)
    state = envs.get_state()
    envs.save_state(tmp_path / "later")
    later = play_on(envs)
    assert any(mask.any() for *_, mask in later)
    other = RecordEpisodeStatistics(make_batch(engine, mode, arrays=arrays))
    other.load_state(tmp_path / "later")
    assert_same(play_on(other), later)
    for _ in range(2):
        envs.set_state(state)
        assert_same(play_on(envs), later)
    with pytest.raises(ArgumentError, match="the snapshot's has statistics 'episode'"):
        envs.unwrapped.set_state(state)
    with pytest.raises(ArgumentError, match="has statistics 'episode'=nothing"):
        envs.set_state(envs.unwrapped.get_state())
    with pytest.raises(ArgumentError, match="one, which has statistics 'other'"):
        RecordEpisodeStatistics(envs.env, "other").set_state(state)
    envs.set_state(state)
    assert_same(play_on(envs), later)


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


def play_on(envs: Any) -> list[Any]:
    """Return observations, flags, returns, lengths and their masks of some steps."""
    log = []
    for _ in range(6):
        *seen, infos = to_numpy(envs.step(ACTIONS))
        episode = infos["episode"]
        log.append([*seen, episode["r"], episode["l"], infos["_episode"]])
    return log
