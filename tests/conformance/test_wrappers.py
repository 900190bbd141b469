"""Gymnasium's own vector wrappers do on a batch what they say they do."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from batches import play, shared_batch
from gymnasium.vector import VectorWrapper
from gymnasium.wrappers import vector
from trees import assert_same


class Loan(VectorWrapper):
    """A batch that outlives the wrappers around it: those of Gymnasium 1.2 close as they go."""

    def close(self, **kwargs: Any) -> None:
        pass


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


def test_record_episode_statistics__begins_again_under_a_reset_mask(
    scripted: str, mode: str
) -> None:
    envs = vector.RecordEpisodeStatistics(Loan(shared_batch(scripted, mode)))
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
    envs = Loan(shared_batch(scripted, mode))
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
