"""Gymnasium's own vector wrappers do on a batch what they say they do."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
import pytest
from batches import make_batch, play, shared_batch
from gymnasium import spaces
from gymnasium import wrappers as single
from gymnasium.vector import VectorWrapper
from gymnasium.wrappers import vector
from gymnasium.wrappers.utils import RunningMeanStd
from trees import assert_same

REFUSALS = (ValueError, AssertionError)
"""What an observation wrapper raises for a mode that it cannot serve; Gymnasium 1.2 asserts."""

OBSERVING_MODES = ("NextStep", "Disabled")

has_1_2 = gymnasium.__version__.startswith("1.2.")


class Loan(VectorWrapper):
    """A batch that outlives the wrappers around it: those of Gymnasium 1.2 close as they go."""

    def close(self, **kwargs: Any) -> None:
        pass


def lend(scripted: str, mode: str = "NextStep", limit: int | None = None) -> Loan:
    return Loan(shared_batch(scripted, mode, limit=limit))


def assert_statistics(log: list[Any]) -> list[float]:
    """Check the statistics of each step by the script's own sums; return the lengths found."""
    found = []
    for obs, *results, infos in log:
        over = results[1] | results[2] if results else np.zeros(len(obs), np.bool_)
        assert ("episode" in infos) == over.any()
        if not over.any():
            continue
        assert infos["_episode"].tolist() == over.tolist()
        totals = infos.get("final_info", infos)["script"]["total"]
        last_obs = infos.get("final_obs", obs)
        for row in np.flatnonzero(over):
            length = float(last_obs[row])  # an observation counts the steps of its episode
            assert infos["episode"]["l"][row] == length
            assert infos["episode"]["r"][row] == totals[row] + length * (length + 1) / 8
            found.append(length)
        assert not infos["episode"]["l"][~over].any()
    return found


@pytest.mark.parametrize("limit", [None, 3])
def test_record_episode_statistics__has_return_and_length(
    scripted: str, mode: str, limit: int | None
) -> None:
    if has_1_2 and mode == "SameStep":
        pytest.skip("RecordEpisodeStatistics of Gymnasium 1.2 drops the step after an end")
    envs = vector.RecordEpisodeStatistics(lend(scripted, mode, limit=limit))
    lengths = assert_statistics(play(envs, 20))
    assert len(lengths) > 12
    assert len(set(lengths)) > 1
    assert list(envs.length_queue) == lengths
    assert len(envs.return_queue) == envs.episode_count == len(lengths)


def test_record_episode_statistics__begins_again_under_a_reset_mask(
    scripted: str, mode: str
) -> None:
    envs = vector.RecordEpisodeStatistics(lend(scripted, mode))
    log: list[Any] = [envs.reset(seed=3)]
    for turn in range(16):
        log.append(copy.deepcopy(envs.step([1, 1, 1, 1])))  # the wrapper goes on using its mask
        over = log[-1][2] | log[-1][3]
        mask = over | (np.arange(4) == turn % 4)  # every row is cut short now and then
        log.append(envs.reset(options={"reset_mask": mask}))
    lengths = assert_statistics(log)
    assert len(lengths) > 8
    assert max(lengths) > 1


@pytest.mark.parametrize("has_statistics", [False, True])
def test_dict_info_to_list__has_the_row_of_each_mask(
    scripted: str, mode: str, has_statistics: bool
) -> None:
    envs = lend(scripted, mode)
    expected = play(envs, 12)
    wrapped = vector.RecordEpisodeStatistics(envs) if has_statistics else envs
    listed_run = play(vector.DictInfoToList(wrapped), 12)
    ends = 0
    for (*_, infos), (*results, listed) in zip(expected, listed_run, strict=True):
        assert len(listed) == 4
        over = results[2] | results[3] if len(results) > 1 else np.zeros(4, np.bool_)
        for row, info in enumerate(listed):
            statistics = info.pop("episode", None)
            assert (statistics is not None) == (has_statistics and over[row])
            assert_same(info, take_info(infos, row))
        ends += over.sum()
    assert ends > 8


def take_info(infos: dict[str, Any], row: int) -> dict[str, Any]:
    """Return what is true of one environment."""
    return {
        key: take_info(value, row) if isinstance(value, dict) else value[row]
        for key, value in infos.items()
        if not key.startswith("_") and infos[f"_{key}"][row]
    }


def test_normalize_observation__standardises_what_next_step_shows(scripted: str) -> None:
    envs = lend(scripted)
    statistics = RunningMeanStd(shape=())
    raw = [returned[0] for returned in play(envs, 12)]
    wrapped = vector.NormalizeObservation(envs)
    for (obs, *_), plain in zip(play(wrapped, 12), raw, strict=True):
        statistics.update(plain)
        expected = (plain - statistics.mean) / np.sqrt(statistics.var + 1e-8)
        np.testing.assert_allclose(obs, expected, rtol=1e-4, atol=1e-5)
    assert len(np.unique(raw)) > 3


def test_normalize_reward__divides_all_by_one_deviation(scripted: str, mode: str) -> None:
    envs = lend(scripted, mode)
    raw = [returned[1] for returned in play(envs, 12) if len(returned) == 5]
    wrapped = vector.NormalizeReward(envs)
    deviations: list[float] = []

    def note(passed: Any) -> None:
        if len(passed[0]) == 5:
            deviations.append(np.sqrt(wrapped.return_rms.var + wrapped.epsilon))

    found = [returned[1] for returned in play(wrapped, 12, touch=note) if len(returned) == 5]
    for rewards, plain, deviation in zip(found, raw, deviations, strict=True):
        np.testing.assert_allclose(rewards, plain / deviation, rtol=1e-5)
    assert len(set(deviations)) == 12


def test_clip_reward__clips_in_place(scripted: str, mode: str) -> None:
    envs = lend(scripted, mode)
    expected = play(envs, 12)
    found = play(vector.ClipReward(envs, 0.5, 1.0), 12)
    clipped = 0
    for returned, plain in zip(found, expected, strict=True):
        if len(plain) == 5:
            np.testing.assert_array_equal(returned[1], np.clip(plain[1], 0.5, 1.0))
            clipped += (returned[1] != plain[1]).sum()
            assert_same([returned[0], *returned[2:]], [plain[0], *plain[2:]])
    assert clipped > 8


def observe(name: str, envs: Any) -> Any:
    """Return the batch in an observation wrapper; each makes 1 more of every observation."""
    if name == "TransformObservation":
        return vector.TransformObservation(envs, lambda obs: obs + 1)
    if name == "VectorizeTransformObservation":
        return vector.VectorizeTransformObservation(
            envs,
            single.TransformObservation,
            func=lambda obs: obs + 1,
            observation_space=envs.single_observation_space,
        )
    return vector.TransformObservation(
        vector.FlattenObservation(envs),
        lambda obs: obs[:, 0] + 1,
        single_observation_space=envs.single_observation_space,
    )


OBSERVERS = ("TransformObservation", "VectorizeTransformObservation", "FlattenObservation")


@pytest.mark.parametrize("mode", OBSERVING_MODES)
@pytest.mark.parametrize("name", OBSERVERS)
def test_observation_wrapper__changes_observations_alone(
    scripted: str, mode: str, name: str
) -> None:
    envs = lend(scripted, mode)
    expected = play(envs, 12)
    wrapped = observe(name, envs)
    found = play(wrapped, 12)
    for (obs, *rest), (plain, *plain_rest) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(obs, plain + 1)
        assert wrapped.observation_space.contains(obs)
        assert_same(rest, plain_rest)
    assert_same(play(envs, 12), expected)


def test_flatten_observation__declares_one_dimension_more(scripted: str) -> None:
    wrapped = vector.FlattenObservation(make_batch(scripted))
    assert isinstance(wrapped.single_observation_space, spaces.Box)
    assert wrapped.observation_space.shape == (4, 1)


@pytest.mark.parametrize("name", OBSERVERS)
def test_observation_wrapper__refuses_same_step(scripted: str, name: str) -> None:
    with pytest.raises(REFUSALS):
        observe(name, make_batch(scripted, mode="SameStep"))


@pytest.mark.parametrize("mode", ["SameStep", "Disabled"])
def test_normalize_observation__refuses_what_is_not_next_step(scripted: str, mode: str) -> None:
    with pytest.raises(REFUSALS):
        vector.NormalizeObservation(make_batch(scripted, mode))
