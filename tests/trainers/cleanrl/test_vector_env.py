"""What CleanRL's scripts read is what gymnasium 0.29 gave them."""

from __future__ import annotations

import copy
import time
from collections import Counter
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics
from hypothesis import given
from hypothesis import strategies as st

from gymbridge.errors import ActionError
from gymbridge.testing import scripted_vector_env
from gymbridge.trainers.cleanrl import CleanRLVectorEnv
from tests.support.references import (
    BareBatch,
    OldStep,
    logged_returns,
    make_scripted_envs,
    old_step,
    sync,
)
from tests.support.strategies import Script, limits, scripts
from tests.support.trees import assert_same, scribble

FINAL_KEYS = {"final_info", "_final_info", "final_observation", "_final_observation"}
SCRIPT = Script(
    np.array([[2, 3], [3, 1], [1, 4]]), np.array([[False, True], [True, False], [True, True]])
)


def make_views(script: Script, limit: int | None = None) -> dict[str, CleanRLVectorEnv]:
    ours = scripted_vector_env(*script, max_episode_steps=limit, autoreset_mode="SameStep")
    theirs = sync(make_scripted_envs(script, limit))
    return {"ours": CleanRLVectorEnv(ours), "theirs": CleanRLVectorEnv(theirs)}


def make_view(*lengths: int) -> CleanRLVectorEnv:
    return CleanRLVectorEnv(scripted_vector_env(lengths, autoreset_mode="SameStep"))


def without_time(final: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a final info without the seconds, which have their type and are not negative."""
    if final is None:
        return None
    record = dict(final["episode"])
    seconds = record.pop("t")
    assert (seconds.shape, seconds.dtype) == ((1,), np.float32)
    assert seconds >= 0
    return {**final, "episode": record}


def assert_as_in_0_29(step: Any, old: OldStep) -> None:
    """Compare a step of the view with the same step of gymnasium 0.29."""
    obs, rewards, terminations, truncations, infos = step
    np.testing.assert_array_equal(obs, old.obs)
    np.testing.assert_array_equal(rewards, old.rewards)
    np.testing.assert_array_equal(terminations, old.terminations)
    np.testing.assert_array_equal(truncations, old.truncations)
    over = old.terminations | old.truncations
    assert not {"final_obs", "_final_obs"} & infos.keys()
    assert FINAL_KEYS & infos.keys() == (FINAL_KEYS if over.any() else set())
    if over.any():
        assert_same(infos["_final_info"], over)
        assert_same(infos["_final_observation"], over)
        assert infos["final_info"].dtype == infos["final_observation"].dtype == object
        assert_same(list(infos["final_observation"]), old.final_obs)
        assert_same([without_time(final) for final in infos["final_info"]], old.final_info)


def test_infos__are_those_of_gymnasium_0_29() -> None:
    seen: Counter[str] = Counter()

    @given(scripts(), limits(), st.integers(0, 99))
    def check(script: Script, limit: int | None, seed: int) -> None:
        for name, view in make_views(script, limit).items():
            makers = make_scripted_envs(script, limit)
            old = sync([lambda make=make: RecordEpisodeStatistics(make()) for make in makers])
            obs, infos = view.reset(seed=seed)
            np.testing.assert_array_equal(obs, old.reset(seed=seed)[0])
            assert not FINAL_KEYS & infos.keys()
            rng = np.random.default_rng(seed)
            for _ in range(10):
                actions = rng.integers(0, 3, view.num_envs)
                step = old_step(old, actions)
                assert_as_in_0_29(view.step(actions), step)
                seen[f"{name} terminated"] += any(step.terminations)
                seen[f"{name} truncated"] += any(step.truncations)
                seen[f"{name} nothing"] += not any(step.terminations | step.truncations)

    check()
    assert len(seen) == 6
    assert min(seen.values()) > 50


def test_record__has_the_seconds_of_each_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    view = make_view(2, 3)
    view.reset(seed=0)
    found = []
    for _ in range(6):
        now[0] += 0.25
        infos = view.step(np.array([0, 0]))[-1]
        found += [final["episode"]["t"].item() for final in infos.get("final_info", ()) if final]
    assert found == [0.5, 0.75, 0.5, 0.5, 0.75]


def test_record__sums_in_double_precision() -> None:
    rewards = iter([2.0**24, 1.0, 1.0])
    make = make_scripted_envs(Script(np.array([[3]]), np.array([[False]])))[0]
    transformed = gym.wrappers.TransformReward(make(), lambda _: next(rewards))
    view = CleanRLVectorEnv(sync([lambda: transformed]))
    view.reset(seed=0)
    for _ in range(3):
        infos = view.step(np.array([0]))[-1]
    assert infos["final_info"][0]["episode"]["r"].item() == 2**24 + 2


@pytest.mark.parametrize("which", ["ours", "theirs"])
def test_reset__begins_statistics_anew_in_its_rows_alone(which: str) -> None:
    script = Script(np.array([[3], [3]]), np.array([[False], [False]]))
    view = make_views(script)[which]
    for _ in range(2):
        view.reset(seed=0)
        view.step(np.array([2, 2]))
    options = {"reset_mask": np.array([True, False])}
    obs, _ = view.reset(options=options)
    assert obs.tolist() == [0, 1]
    assert list(options) == ["reset_mask"]
    found = [logged_returns(view.step(np.array([1, 1]))[-1]) for _ in range(3)]
    assert found == [[], [(5.5, 3)], [(4.5, 3)]]


def test_rejected_actions__leave_statistics_as_they_were() -> None:
    view = make_view(2)
    view.reset(seed=0)
    view.step(np.array([1]))
    with pytest.raises(ActionError):
        view.step(np.array([7]))
    assert logged_returns(view.step(np.array([1]))[-1]) == [(2.75, 2)]


def test_record__of_a_wrapper_inside_stays() -> None:
    """As in make_env: rewards are changed outside the wrapper that records them."""

    def make() -> gym.Env[Any, Any]:
        script = Script(np.array([[2]]), np.array([[False]]))
        recorded = gym.wrappers.RecordEpisodeStatistics(make_scripted_envs(script)[0]())
        return gym.wrappers.TransformReward(recorded, lambda reward: 100 * reward)

    view = CleanRLVectorEnv(sync([make, make]))
    view.reset(seed=0)
    view.step(np.array([1, 0]))
    infos = view.step(np.array([1, 0]))[-1]
    assert logged_returns(infos) == [(2.75, 2), (0.75, 2)]
    record = infos["final_info"][0]["episode"]
    assert [record[key].dtype.name for key in "rlt"] == ["float32", "int32", "float32"]
    assert {value.shape for value in record.values()} == {(1,)}


def test_final_info__has_only_what_its_environment_gave() -> None:
    class Odd(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            *rest, info = self.env.step(action)
            extra = {"only": 5, "deep": {"name": "a"}} if action == 1 else {"_hidden": 2.5}
            return *rest, {**info, **extra}

    script = Script(np.array([[1], [1]]), np.array([[False], [True]]))
    makers = [lambda make=make: Odd(make()) for make in make_scripted_envs(script)]
    view = CleanRLVectorEnv(sync(makers))
    view.reset(seed=0)
    one, other = view.step(np.array([1, 2]))[-1]["final_info"]
    assert one.keys() == {"draw", "script", "only", "deep", "episode"}
    assert (one["only"], one["deep"]) == (5, {"name": "a"})
    assert other.keys() == {"draw", "script", "_hidden", "episode"}
    assert other["_hidden"] == 2.5


def test_batch_without_final_infos__has_the_record_alone() -> None:
    view = CleanRLVectorEnv(BareBatch(np.full((2, 2), 7, np.float32)))
    view.reset()
    infos = view.step(np.array([0, 0]))[-1]
    assert infos["final_info"][0] is None
    assert infos["final_info"][1].keys() == {"episode"}
    assert infos["final_observation"][0] is None
    assert_same(infos["final_observation"][1], np.array([7, 7], np.float32))


@pytest.mark.parametrize("which", ["ours", "theirs"])
def test_outputs__belong_to_the_user(which: str) -> None:
    clean, spoilt = (make_views(SCRIPT)[which] for _ in range(2))
    clean.reset(seed=0)
    scribble(spoilt.reset(seed=0))
    for _ in range(12):
        actions = np.array([0, 1, 2])
        expected, step = clean.step(actions), spoilt.step(actions)
        kept = copy.deepcopy(step)
        assert_same(expected[0], kept[0])
        assert logged_returns(expected[-1]) == logged_returns(kept[-1])
        scribble(step[0])
        finals = step[-1].get("final_observation", ()), step[-1].get("final_info", ())
        for obs, info in zip(*finals, strict=True):
            if info is not None:
                scribble((obs, info["episode"]))
