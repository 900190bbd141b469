"""What CleanRL's scripts read is what gymnasium 0.29 would have told them."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from batches import make_batch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from hypothesis import given
from hypothesis import strategies as st
from old_gymnasium import (
    OldStep,
    OldSync,
    WalkEnv,
    logged_returns,
    make_scripted_envs,
    sync,
    true_next_obs,
)
from strategies import Script, limits, scripts
from trees import assert_same, scribble

from gymbridge import BridgeVectorEnv
from gymbridge.errors import ActionError, ArgumentError, ArgumentTypeError
from gymbridge.testing import ScriptedSimulator, scripted_vector_env
from gymbridge.trainers.cleanrl import CleanRLVectorEnv, make_cleanrl

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


class BareBatch(VectorEnv[Any, Any, np.ndarray]):
    """A batch that gives its last observations as one array and no last infos, as ALE's does."""

    def __init__(self) -> None:
        self.num_envs = 2
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = spaces.Box(0, 9, (2,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, 2)
        self.action_space = batch_space(self.single_action_space, 2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((2, 2), np.float32), {}

    def step(self, actions: Any) -> Any:
        over = np.array([False, True])
        infos = {"final_obs": np.full((2, 2), 7, np.float32)}
        return np.zeros((2, 2), np.float32), np.ones(2), over, ~over & False, infos


def test_batch_without_last_infos__has_the_record_alone() -> None:
    view = CleanRLVectorEnv(BareBatch())
    view.reset()
    infos = view.step(np.array([0, 0]))[-1]
    assert infos["final_info"][0] is None
    assert infos["final_info"][1].keys() == {"episode"}
    assert infos["final_observation"][0] is None
    assert_same(infos["final_observation"][1], np.array([7, 7], np.float32))


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_observation_dtype__may_be_assigned(dtype: Any) -> None:
    def make() -> gym.Env[Any, Any]:
        return WalkEnv()

    inner = sync([make, make])
    view = CleanRLVectorEnv(inner)
    view.single_observation_space.dtype = dtype
    obs, _ = view.reset(seed=0)
    assert obs.dtype == dtype
    assert inner.single_observation_space.dtype == np.float32
    stored = np.zeros(
        (2, *view.single_observation_space.shape), view.single_observation_space.dtype
    )
    for _ in range(30):
        obs, _, _, _, infos = view.step(np.zeros((2, 2), np.float32))
        stored[:] = obs
        np.testing.assert_array_equal(stored, obs)
        assert obs.dtype == dtype
        assert obs[0] in view.single_observation_space
        lasts = [last for last in infos.get("final_observation", ()) if last is not None]
        assert {last.dtype for last in lasts} <= {np.dtype(dtype)}


DICT_SPACE = spaces.Dict(
    {
        "b": spaces.Box(-np.inf, np.inf, (1, 2), np.float32),
        "a": spaces.Dict({"c": spaces.Box(-np.inf, np.inf, (), np.float32)}),
    }
)


def test_dict_observations__are_joined_as_gymnasium_flattens_them() -> None:
    def make() -> gym.Env[Any, Any]:
        return WalkEnv(DICT_SPACE)

    view = CleanRLVectorEnv(sync([make] * 3))
    old = OldSync([gym.wrappers.FlattenObservation(make()) for _ in range(3)])
    assert view.single_observation_space == old.envs[0].observation_space
    assert view.observation_space == batch_space(view.single_observation_space, 3)
    np.testing.assert_array_equal(view.reset(seed=2)[0], np.stack(old.reset([2, 3, 4])))
    ends = 0
    for _ in range(20):
        actions = np.full((3, 2), 0.25, np.float32)
        step, shown = old.step(actions), view.step(actions)
        assert shown[0] in view.observation_space
        np.testing.assert_array_equal(shown[0], np.stack(step.obs))
        if "final_observation" in shown[-1]:
            assert_same(list(shown[-1]["final_observation"]), step.final_obs)
            ends += 1
    assert ends > 5


def test_dict_observations__that_are_no_numbers_are_refused() -> None:
    space = spaces.Dict({"x": spaces.Box(0, 1, (2,)), "way": spaces.Discrete(4)})
    with pytest.raises(ArgumentError, match=r"Discrete under 'way'.*FilterObservation"):
        CleanRLVectorEnv(sync([lambda: WalkEnv(space)]))
    with pytest.raises(ArgumentError, match="under 'way'"):
        CleanRLVectorEnv(sync([lambda: WalkEnv(spaces.Dict({"deep": space}))]))


def test_discrete_actions__are_int64_from_zero() -> None:
    simulator = ScriptedSimulator([2, 3])
    simulator.single_action_space = spaces.Discrete(3, dtype=np.int32)
    view = CleanRLVectorEnv(BridgeVectorEnv(simulator, autoreset_mode="SameStep"))
    assert view.single_action_space == spaces.Discrete(3)
    assert view.single_action_space.dtype == np.int64
    assert view.action_space == spaces.MultiDiscrete([3, 3])
    view.reset(seed=0)
    view.step(np.array([view.single_action_space.sample() for _ in range(view.num_envs)]))


def test_discrete_actions__that_count_from_elsewhere_are_refused() -> None:
    simulator = ScriptedSimulator([2])
    simulator.single_action_space = spaces.Discrete(3, start=-1)
    with pytest.raises(ArgumentError, match=r"from 0.*start=-1"):
        CleanRLVectorEnv(BridgeVectorEnv(simulator, autoreset_mode="SameStep"))


@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_other_modes__are_refused_by_name(mode: str) -> None:
    script = Script(np.array([[2]]), np.array([[False]]))
    for envs in (make_batch("host", mode=mode), sync(make_scripted_envs(script), mode)):
        wrong = r"got AutoresetMode\.\w+; build it with `autoreset_mode=AutoresetMode\.SAME_STEP`"
        with pytest.raises(ArgumentError, match=wrong):
            CleanRLVectorEnv(envs)


def test_other_objects__are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"VectorEnv, got WalkEnv.*make_cleanrl"):
        CleanRLVectorEnv(WalkEnv())  # type: ignore[arg-type]


def test_make__builds_other_ids_of_gymnasium_too() -> None:
    view = make_cleanrl("CartPole-v1", 2, max_episode_steps=5)
    view.reset(seed=0)
    shown = [view.step(np.array([index % 2, index % 2])) for index in range(5)]
    assert shown[-1][3].all()
    assert logged_returns(shown[-1][-1]) == [(5.0, 5), (5.0, 5)]
    view.close()


def test_make__seeds_the_first_random_actions_as_make_env_does() -> None:
    first, again, other = (make_cleanrl("CartPole-v1", 2, seed=seed) for seed in (3, 3, 4))
    reference = spaces.Discrete(2, seed=3)
    drawn = [[view.single_action_space.sample() for _ in range(40)] for view in (first, again)]
    assert drawn == [[reference.sample() for _ in range(40)]] * 2
    assert drawn[0] != [other.single_action_space.sample() for _ in range(40)]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"env_id": 7}, ArgumentTypeError, r"`env_id`.*got int.*CleanRLVectorEnv\(envs\)"),
        ({"seed": -1}, ArgumentError, "`seed`"),
        ({"seed": 1.5}, ArgumentTypeError, "`seed`"),
        ({"normalize": True}, ArgumentError, r"`normalize`.*'env'.*'batch'.*got True"),
        ({"gamma": 1.5}, ArgumentError, r"`gamma`.*0 to 1, got 1\.5"),
        ({"gamma": "high"}, ArgumentError, "`gamma`"),
        ({"env_id": "Nothing-v0"}, gym.error.NameNotFound, "Nothing"),
    ],
)
def test_make__refuses_bad_arguments(arguments: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make_cleanrl(**{"env_id": "CartPole-v1", **arguments})


def test_make__builds_our_ids() -> None:
    pytest.importorskip("envpool")
    for env_id in ("EnvPool/CartPole-v1", "gymbridge:EnvPool/CartPole-v1"):
        view = make_cleanrl(env_id, 3, max_episode_steps=4)
        assert type(view.unwrapped).__name__ == "EnvPoolVectorEnv"
        assert (view.num_envs, view.single_action_space.dtype) == (3, np.int64)
        view.reset(seed=0)
        for index in range(4):
            infos = view.step(np.full(3, index % 2))[-1]
        assert logged_returns(infos) == [(4.0, 4)] * 3
        view.close()
    with pytest.raises(ArgumentError, match="SAME_STEP"):
        make_cleanrl("EnvPool/CartPole-v1", autoreset_mode="NextStep")


@pytest.mark.filterwarnings("ignore:.*precision lowered")
def test_timeouts__bootstrap_from_what_the_pool_itself_reached() -> None:
    """The transitions that a script stores, against EnvPool's own pool with the same actions."""
    envpool = pytest.importorskip("envpool")
    view = make_cleanrl("EnvPool/Pendulum-v1", 2, seed=1)
    pool = envpool.make_gymnasium("Pendulum-v1", num_envs=2, seed=1)
    obs, _ = view.reset(seed=1)
    before, _ = pool.reset()
    cuts = 0
    for _ in range(450):
        actions = np.array([view.single_action_space.sample() for _ in range(2)])
        obs, _, terminations, truncations, infos = view.step(actions)
        after, _, _, cut, _ = pool.step(actions)
        np.testing.assert_array_equal(true_next_obs(obs, truncations, infos), after)
        np.testing.assert_array_equal(truncations, cut)
        assert not terminations.any()
        if cut.any():
            cuts += 1
            after = pool.step(actions)[0]
            assert not np.array_equal(infos["final_observation"][0], obs[0])
        np.testing.assert_array_equal(obs, after)
        assert not np.array_equal(before, after)
        before = after
    assert cuts == 2
    view.close()
