"""What CleanRL's scripts read is what gymnasium 0.29 would have told them."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from old_gymnasium import (
    OldStep,
    OldSync,
    logged_returns,
    make_scripted_envs,
    sync,
    true_next_obs,
)
from strategies import Script, limits, scripts
from trees import assert_same, scribble

from gymbridge.errors import ActionError
from gymbridge.testing import scripted_vector_env
from gymbridge.trainers.cleanrl import CleanRLVectorEnv

FINAL_KEYS = {"final_info", "_final_info", "final_observation", "_final_observation"}
LENGTHS, TRUNCATES = [[2, 3], [3, 1], [1, 4]], [[False, True], [True, False], [True, True]]


def make_views(script: Script, limit: int | None) -> dict[str, CleanRLVectorEnv]:
    ours = scripted_vector_env(
        script.lengths, script.truncates, max_episode_steps=limit, autoreset_mode="SameStep"
    )
    theirs = sync(make_scripted_envs(script, limit))
    return {"ours": CleanRLVectorEnv(ours), "theirs": CleanRLVectorEnv(theirs)}


def make_view(lengths: Any = LENGTHS, truncates: Any = TRUNCATES) -> CleanRLVectorEnv:
    return CleanRLVectorEnv(scripted_vector_env(lengths, truncates, autoreset_mode="SameStep"))


def without_time(last: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a last info without the seconds, which have their type and are not negative."""
    if last is None:
        return None
    record = dict(last["episode"])
    seconds = record.pop("t")
    assert (seconds.shape, seconds.dtype) == ((1,), np.float32)
    assert seconds >= 0
    return {**last, "episode": record}


def assert_told_as_before(shown: Any, old: OldStep) -> None:
    """Compare a step of the view with the same step of gymnasium 0.29."""
    obs, rewards, terminations, truncations, infos = shown
    np.testing.assert_array_equal(obs, np.stack(old.obs))
    np.testing.assert_array_equal(rewards, old.rewards)
    np.testing.assert_array_equal(terminations, old.terminations)
    np.testing.assert_array_equal(truncations, old.truncations)
    over = np.array(old.terminations) | old.truncations
    assert not {"final_obs", "_final_obs"} & infos.keys()
    assert FINAL_KEYS & infos.keys() == (FINAL_KEYS if over.any() else set())
    if over.any():
        assert_same(infos["_final_info"], over)
        assert_same(infos["_final_observation"], over)
        assert infos["final_info"].dtype == infos["final_observation"].dtype == object
        assert_same(list(infos["final_observation"]), old.final_obs)
        assert_same([without_time(last) for last in infos["final_info"]], old.final_info)


def test_infos__are_those_of_gymnasium_0_29() -> None:
    seen: Counter[str] = Counter()

    @given(scripts(), limits(), st.integers(0, 99))
    def check(script: Script, limit: int | None, seed: int) -> None:
        for name, view in make_views(script, limit).items():
            old = OldSync([make() for make in make_scripted_envs(script, limit)])
            obs, infos = view.reset(seed=seed)
            np.testing.assert_array_equal(
                obs, np.stack(old.reset([seed + index for index in range(view.num_envs)]))
            )
            assert not FINAL_KEYS & infos.keys()
            rng = np.random.default_rng(seed)
            for _ in range(10):
                actions = rng.integers(0, 3, view.num_envs)
                step = old.step(actions)
                assert_told_as_before(view.step(actions), step)
                seen[f"{name} terminated"] += any(step.terminations)
                seen[f"{name} truncated"] += any(step.truncations)
                seen[f"{name} nothing"] += not any(step.terminations + step.truncations)

    check()
    assert len(seen) == 6
    assert min(seen.values()) > 50


@pytest.mark.parametrize("which", ["ours", "theirs"])
def test_loops_of_the_scripts__log_and_store_what_happened(which: str) -> None:
    script = Script(np.array(LENGTHS), np.array(TRUNCATES))
    view = make_views(script, 3)[which]
    old = OldSync([make() for make in make_scripted_envs(script, 3)])
    view.reset(seed=4)
    old.reset([4, 5, 6])
    logged, expected, cuts = [], [], 0
    for number in range(40):
        actions = np.array([number % 3, (number + 1) % 3, 2])
        obs, _, _, truncations, infos = view.step(actions)
        step = old.step(actions)
        logged += logged_returns(infos)
        expected += [
            (last["episode"]["r"].item(), last["episode"]["l"].item())
            for last in step.final_info
            if last
        ]
        reached = [
            last if cut else first
            for first, last, cut in zip(step.obs, step.final_obs, step.truncations, strict=True)
        ]
        np.testing.assert_array_equal(true_next_obs(obs, truncations, infos), np.stack(reached))
        cuts += sum(step.truncations)
    assert logged == expected
    assert len(logged) > 40
    assert cuts > 20


def test_record__prints_as_in_gymnasium_0_29() -> None:
    view = make_view([2], False)
    view.reset(seed=0)
    view.step(np.array([1]))
    record = view.step(np.array([2]))[-1]["final_info"][0]["episode"]
    assert f"{record['r']}, {record['l']}" == "[3.75], [2]"
    assert {key: value.dtype.name for key, value in record.items()} == {
        "r": "float32",
        "l": "int32",
        "t": "float32",
    }


def test_record__tells_the_seconds_of_each_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("gymbridge.trainers.cleanrl.time.perf_counter", lambda: now[0])
    view = make_view([2, 3], False)
    view.reset(seed=0)
    found = []
    for _ in range(6):
        now[0] += 0.25
        infos = view.step(np.array([0, 0]))[-1]
        found += [last["episode"]["t"].item() for last in infos.get("final_info", ()) if last]
    assert found == [0.5, 0.75, 0.5, 0.5, 0.75]


def test_record__sums_in_double_precision() -> None:
    class Large(gym.Wrapper[Any, Any, Any, Any]):
        rewards = iter([2.0**24, 1.0, 1.0])

        def step(self, action: Any) -> Any:
            obs, _, *rest = self.env.step(action)
            return obs, next(self.rewards), *rest

    script = Script(np.array([[3]]), np.array([[False]]))
    view = CleanRLVectorEnv(sync([lambda: Large(make_scripted_envs(script)[0]())]))
    view.reset(seed=0)
    for _ in range(3):
        infos = view.step(np.array([0]))[-1]
    assert infos["final_info"][0]["episode"]["r"].item() == 2**24 + 2


def test_reset__begins_statistics_anew() -> None:
    view = make_view([3, 3, 3], False)
    view.reset(seed=0)
    view.step(np.array([2, 2, 2]))
    view.reset()
    infos = [view.step(np.array([0, 1, 2]))[-1] for _ in range(3)][-1]
    assert logged_returns(infos) == [(1.5, 3), (4.5, 3), (7.5, 3)]


@pytest.mark.parametrize("which", ["ours", "theirs"])
def test_partial_reset__begins_statistics_anew_in_its_rows_alone(which: str) -> None:
    script = Script(np.array([[3], [3]]), np.array([[False], [False]]))
    view = make_views(script, None)[which]
    view.reset(seed=0)
    view.step(np.array([2, 2]))
    options = {"reset_mask": np.array([True, False])}
    obs, _ = view.reset(options=options)
    assert obs.tolist() == [0, 1]
    assert list(options) == ["reset_mask"]
    found = [logged_returns(view.step(np.array([1, 1]))[-1]) for _ in range(3)]
    assert found == [[], [(5.5, 3)], [(4.5, 3)]]


def test_rejected_actions__leave_statistics_as_they_were() -> None:
    view = make_view([2], False)
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


def test_last_info__has_only_what_its_environment_told() -> None:
    class Odd(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            *shown, info = self.env.step(action)
            extra = {"only": 5, "deep": {"name": "a"}} if action == 1 else {"_hidden": 2.5}
            return *shown, {**info, **extra}

    script = Script(np.array([[1], [1]]), np.array([[False], [True]]))
    makers = [lambda make=make: Odd(make()) for make in make_scripted_envs(script)]
    view = CleanRLVectorEnv(sync(makers))
    view.reset(seed=0)
    first, second = view.step(np.array([1, 2]))[-1]["final_info"]
    assert first.keys() == {"draw", "script", "only", "deep", "episode"}
    assert (first["only"], first["deep"]) == (5, {"name": "a"})
    assert second.keys() == {"draw", "script", "_hidden", "episode"}
    assert second["_hidden"] == 2.5


@pytest.mark.parametrize("which", ["ours", "theirs"])
def test_what_is_shown__belongs_to_the_user(which: str) -> None:
    script = Script(np.array(LENGTHS), np.array(TRUNCATES))
    clean, spoilt = (make_views(script, None)[which] for _ in range(2))
    clean.reset(seed=0)
    scribble(spoilt.reset(seed=0))
    for _ in range(12):
        shown, other = clean.step(np.array([0, 1, 2])), spoilt.step(np.array([0, 1, 2]))
        kept = copy.deepcopy(other)
        assert_same(shown[0], kept[0])
        assert logged_returns(shown[-1]) == logged_returns(kept[-1])
        for last in other[-1].get("final_observation", ()):
            if last is not None:
                last[...] = -1
        scribble(other[0])
        for last in other[-1].get("final_info", ()):
            if last is not None:
                scribble(last["episode"])
