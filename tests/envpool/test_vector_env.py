"""What EnvPool's spaces, arrays, keywords and infos become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool")

import envpool
from envpool_runs import act_all, leaves_of, make, make_own, play
from gymnasium import error, spaces
from trees import walk_infos

from gymbridge import EnvPoolVectorEnv
from gymbridge.envpool.tasks import load_tasks
from gymbridge.errors import ArgumentError, ArgumentTypeError, SimulationError, UnknownTaskError

TASKS = (
    "Blackjack-v1",
    "CartPole-v1",
    "Catch-v0",
    "FetchReach-v4",
    "FrozenLake-v1",
    "HalfCheetah-v5",
    "LunarLander-v3",
    "MiniGrid-Empty-5x5-v0",
    "Pendulum-v1",
    "Play2048-v1",
    "RubiksCube-partly-scrambled-v0",
)


@pytest.mark.parametrize("task_id", TASKS)
def test_spaces__hold_what_is_returned_dtypes_included(task_id: str, mode: str) -> None:
    envs = make(task_id, 3, mode, max_episode_steps=4)
    for shown in play(envs, 6):
        assert envs.observation_space.contains(shown[0])
        arrays, single = leaves_of(shown[0]), leaves_of(envs.single_observation_space)
        for array, space in zip(arrays, single, strict=True):
            assert (array.dtype, array.shape) == (space.dtype, (3, *space.shape))
        kinds = [(part.dtype, part.shape) for part in shown[1:4] if len(shown) == 5]
        assert kinds in ([], [(np.float32, (3,)), (np.bool_, (3,)), (np.bool_, (3,))])


def test_discrete__is_int32_as_the_pool_gives_it() -> None:
    envs = make("FrozenLake-v1", 2)
    assert envs.single_observation_space == spaces.Discrete(16, dtype=np.int32)
    assert envs.single_action_space == spaces.Discrete(4, dtype=np.int32)
    assert envs.reset(seed=0)[0].dtype == envs.observation_space.dtype == np.int32


def test_multi_binary__shows_the_bits_of_the_pool() -> None:
    envs = make("Play2048-v1", 2)
    obs, _ = envs.reset(seed=7)
    bits, _ = make_own("Play2048-v1", num_envs=2, seed=7).reset()
    assert (bits.dtype, obs.dtype) == (np.bool_, np.int8)
    assert 0 < obs.sum() == bits.sum()
    np.testing.assert_array_equal(obs.astype(bool), bits)


def test_pool__is_built_by_the_first_reset_and_by_each_new_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[Any] = []
    make_gymnasium = envpool.make_gymnasium
    monkeypatch.setattr(
        envpool,
        "make_gymnasium",
        lambda *args, **kwargs: (built.append(kwargs), make_gymnasium(*args, **kwargs))[1],
    )
    envs = make("CartPole-v1", 2)
    assert built == []
    envs.reset()
    envs.reset()
    envs.reset(options={"reset_mask": np.array([True, False])})
    assert len(built) == 1
    envs.reset(seed=1)
    assert [keywords["seed"] for keywords in built[1:]] == [1]


def test_keywords__reach_the_pool() -> None:
    envs = make("HalfCheetah-v5", 3, num_threads=2, frame_skip=1)
    envs.reset(seed=0)
    config = envs.get_attr("config")[0]
    assert (config.num_threads, config.frame_skip) == (2, 1)
    usual = make("HalfCheetah-v5", 3)
    usual.reset(seed=0)
    actions = np.ones((3, 6))
    assert (envs.step(actions)[0] != usual.step(actions)[0]).any()


@pytest.mark.parametrize(
    ("task_id", "num_envs", "num_threads"),
    [("CartPole-v1", 64, 1), ("CartPole-v1", 65, 0), ("Taxi-v3", 8, 1), ("HalfCheetah-v5", 8, 0)],
)
def test_small_batches_of_cheap_tasks__have_one_worker_by_default(
    task_id: str, num_envs: int, num_threads: int
) -> None:
    assert make(task_id, num_envs).get_attr("config")[0].num_threads == num_threads
    given = make(task_id, num_envs, num_threads=2)
    assert given.get_attr("config")[0].num_threads == 2


BAD_KEYWORDS = {
    "num_thread": (1, r"keyword argument 'num_thread' .*Did you mean 'num_threads'"),
    "autoreset": ("SameStep", "keyword argument 'autoreset' .*Did you mean 'autoreset_mode'"),
    "frame_skip": (4, "keyword argument 'frame_skip' for 'CartPole-v1'"),
    "seed": (1, r"keyword argument 'seed' .*reset\(seed=...\)"),
    "env_seed": ([1], r"keyword argument 'env_seed' .*reset\(seed=...\)"),
    "batch_size": (2, "keyword argument 'batch_size' "),
    "max_num_players": (2, "keyword argument 'max_num_players' .*one player"),
    "num_players": (2, "keyword argument 'num_players' "),
    "env_type": ("gym", "keyword argument 'env_type' "),
    "gym_reset_return_info": (True, "keyword argument 'gym_reset_return_info' "),
    "render_mode": ("human", "keyword argument 'render_mode' .*not available"),
    "action_repeat": (4, "keyword argument 'action_repeat' .*`frame_skip`"),
    "num_threads": (-1, "`num_threads` must be at least 0, got -1"),
    "max_episode_steps": (0, "`max_episode_steps` must be at least 1, .*got 0"),
    "num_envs": (0, "`num_envs` must be at least 1, got 0"),
    "autoreset_mode": ("Never", "`autoreset_mode` must be .*'SameStep'.*got 'Never'"),
    "info_keys": (["elapsed"], "`info_keys` names 'elapsed'.*did you mean 'elapsed_step'"),
}


@pytest.mark.parametrize("name", BAD_KEYWORDS)
def test_keyword__that_is_wrong_is_named(name: str) -> None:
    value, message = BAD_KEYWORDS[name]
    with pytest.raises(ArgumentError, match=message):
        EnvPoolVectorEnv("CartPole-v1", **{"num_envs": 2, name: value})


FATAL = [
    *(("Pong-v5", name, -1, "at least 1, got -1") for name in ("frame_skip", "img_height")),
    *(("Pong-v5", name, 0, "at least 1, got 0") for name in ("img_width", "noop_max", "stack_num")),
    ("Pong-v5", "task", "pongg", r"name an Atari ROM.*'pongg'.*pongg\.bin"),
    ("Pong-v5", "base_path", "nowhere", r"name an Atari ROM.*'nowhere'"),
    ("CartPole-v1", "num_threads", 10**9, "at most 1024, got 1000000000"),
    ("CartPole-v1", "num_threads", "4", "must be an int, got '4'"),
    ("FrozenLake-v1", "size", 5, r"one of \(4, 8\) for 'FrozenLake-v1', got 5"),
    ("FrozenLake8x8-v1", "size", "8", "must be an int, got '8'"),
    ("Catch-v0", "height", 1, "at least 2, got 1"),
    ("Catch-v0", "width", 0, "at least 1, got 0"),
    ("MiniGrid-Empty-5x5-v0", "size", 2, "at least 3, got 2"),
    ("MiniGrid-Empty-5x5-v0", "agent_view_size", 0, "at least 1, got 0"),
    ("MiniGrid-Empty-5x5-v0", "env_name", "doorkeyy", "MiniGrid.*got 'doorkeyy'.*'doorkey'"),
]
"""Values with which EnvPool ends the process or hangs."""


@pytest.mark.parametrize(("task_id", "name", "value", "message"), FATAL)
def test_keyword__whose_value_would_end_the_process_is_refused(
    task_id: str, name: str, value: Any, message: str
) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError), match=f"`{name}`.*{message}"):
        make(task_id, 1, **{name: value})


@pytest.mark.parametrize(
    ("task_id", "keywords"),
    [
        ("FrozenLake-v1", {"size": 8}),
        ("Catch-v0", {"height": 2, "width": 1}),
        ("MiniGrid-Empty-5x5-v0", {"size": 3, "agent_view_size": 1}),
        ("MiniGrid-Empty-5x5-v0", {"env_name": "doorkey"}),
        ("Pong-v5", {"task": "breakout"}),
        ("CartPole-v1", {"num_threads": 0}),
    ],
)
def test_keyword__at_the_edge_of_what_is_refused_runs(
    task_id: str, keywords: dict[str, Any]
) -> None:
    play(make(task_id, 2, **keywords), 30)


@pytest.mark.parametrize("info_keys", ["every", 5])
def test_info_keys__of_another_kind_are_refused(info_keys: Any) -> None:
    kind = ArgumentError if isinstance(info_keys, str) else ArgumentTypeError
    with pytest.raises(kind, match=f"`info_keys` must be None, .*got {info_keys!r}"):
        make("CartPole-v1", info_keys=info_keys)


def test_duration__of_highway_is_owned_by_the_limit() -> None:
    with pytest.raises(ArgumentError, match=r"argument 'duration' .*Use `max_episode_steps`"):
        make("UTurn-v0", duration=4)


def test_task__that_is_unknown_is_told_with_the_version_and_the_nearest() -> None:
    with pytest.raises(UnknownTaskError, match=r"envpool 1\.\d.*'Cartpole-v1'.*'CartPole-v1'"):
        make("Cartpole-v1")
    with pytest.raises(error.UnregisteredEnv):
        make("EnvPool/CartPole-v1")
    with pytest.raises(ArgumentTypeError, match=r"`task_id` must be the name .* got int"):
        make(5)  # type: ignore[arg-type]


def test_task__with_several_players_is_refused() -> None:
    several = [name for name, task in load_tasks().items() if task["max_num_players"] > 1]
    assert len(several) > 10
    for task_id in ("TicTacToe-v1", "intersection-multi-agent-v0"):
        assert task_id in several
        with pytest.raises(ArgumentError, match=f"with one player, got '{task_id}' with 2"):
            make(task_id)


def test_task__that_envpool_cannot_describe_or_build_is_named() -> None:
    with pytest.raises(SimulationError, match="EnvPool cannot describe 'VizdoomCustom-v1'"):
        make("VizdoomCustom-v1")
    envs = make("Sudoku-v0")
    with pytest.raises(SimulationError, match="EnvPool cannot build 'Sudoku-v0'"):
        envs.reset(seed=0)


def test_infos__are_all_but_row_ids_and_the_same_in_reset_and_step(mode: str) -> None:
    envs = make("HalfCheetah-v5", 3, mode, max_episode_steps=2)
    names = {"reward_run", "reward_ctrl", "x_position", "x_velocity", "elapsed_step"}
    for shown in play(envs, 5):
        found = {name for name in shown[-1] if name.lstrip("_").split("_")[0] != "final"}
        assert found == names | {f"_{name}" for name in names}


@pytest.mark.parametrize(
    ("info_keys", "names"),
    [
        ("all", ["elapsed_step", "env_id", "players", "x_position"]),
        (["env_id", "players.env_id"], ["env_id", "players"]),
        (["elapsed_step"], ["elapsed_step"]),
        ([], []),
    ],
    ids=str,
)
def test_info_keys__choose_the_infos(info_keys: Any, names: list[str], mode: str) -> None:
    envs = make("Hopper-v5", 3, mode, info_keys=info_keys, max_episode_steps=2)
    for shown in play(envs, 3)[1:3]:
        infos = {key: value for key, value in shown[-1].items() if "final" not in key}
        assert {*infos} >= {*names, *(f"_{name}" for name in names)}
        assert ("x_velocity" in infos) == (info_keys == "all")
        for _, value, mask in walk_infos(infos):
            assert mask.dtype == np.bool_
            assert isinstance(value, dict) or len(value) == 3
        if "players" in names:
            np.testing.assert_array_equal(infos["players"]["env_id"], infos["env_id"])
            np.testing.assert_array_equal(infos["env_id"], [0, 1, 2])


@pytest.mark.parametrize("task_id", ["FrozenLake-v1", "MiniGrid-Empty-5x5-v0", "CartPole-v1"])
def test_same_step__tells_the_last_observation_and_infos_of_ended_rows(task_id: str) -> None:
    envs = make(task_id, 3, "SameStep", max_episode_steps=5)
    envs.reset(seed=0, options=None)
    envs.step(act_all(envs, 0, 0))
    envs.reset(options={"reset_mask": np.array([False, True, False])})
    seen = []
    for step in range(12):
        _, _, terminated, truncated, infos = envs.step(act_all(envs, 1, step))
        over = terminated | truncated
        assert ("final_obs" in infos) == ("final_info" in infos) == over.any()
        if not over.any():
            continue
        seen.append(over)
        np.testing.assert_array_equal(infos["_final_obs"], over)
        np.testing.assert_array_equal(infos["_final_info"], over)
        assert infos["final_obs"].dtype == object
        for row, last in enumerate(infos["final_obs"]):
            assert (last is not None) == over[row]
            assert last is None or envs.single_observation_space.contains(last)
        final = infos["final_info"]
        np.testing.assert_array_equal(final["_elapsed_step"], over)
        assert (final["elapsed_step"][over] > 0).all()
        assert (final["elapsed_step"][~over] == 0).all()
        assert (infos["elapsed_step"][over] == 0).all()
        assert infos["_elapsed_step"].all()
    assert any(over.any() and not over.all() for over in seen), "no row ended alone"


def test_attributes__are_those_of_the_task_before_and_after_the_pool_is_built() -> None:
    envs = make("CartPole-v1", 2)
    for _ in range(2):
        assert envs.get_attr("spec") == (None, None)
        assert envs.get_attr("action_space") == (envs.single_action_space,) * 2
        assert envs.get_attr("config")[1].reward_threshold == 475
        with pytest.raises(AttributeError, match="gravity"):
            envs.get_attr("gravity")
        with pytest.raises(AttributeError):
            envs.call("reset")  # it would move the episodes unseen
        with pytest.raises(ArgumentError, match="`config` belongs to the simulation"):
            envs.set_attr("config", 1)
        envs.reset(seed=3)
    assert envs.get_attr("np_random_seed") == (3, 4)
    envs.set_attr("label", ["a", "b"])
    assert envs.get_attr("label") == ("a", "b")


FIXED = ("gravity", "length", "force_mag", "state", "num_threads", "max_episode_steps", "config")
FIXED_FORMS = ("_max_episode_steps", "config.num_threads", "np_random", "autoreset_mode", "step")


@pytest.mark.parametrize("name", FIXED + FIXED_FORMS)
def test_set_attr__of_what_is_fixed_is_an_error(name: str) -> None:
    envs = make("CartPole-v1", 2)
    with pytest.raises(ArgumentError, match=f"`{name}` belongs to the simulation and is fixed"):
        envs.set_attr(name, 3)
    assert name == "config" or not envs.call("has_wrapper_attr", name)[0]


@pytest.mark.parametrize("task_id", ["CartPole-v1", "Pong-v5", "FrozenLake-v1"])
@pytest.mark.parametrize("name", ["label", "count", "my_state"])
def test_set_attr__of_the_users_own_is_kept(task_id: str, name: str) -> None:
    envs = make(task_id, 2)
    assert envs.call("has_wrapper_attr", name) == (False, False)
    envs.set_attr(name, [3, 4])
    assert envs.get_attr(name) == (3, 4)
    assert envs.call("has_wrapper_attr", name) == (True, True)


def test_set_attr__refuses_what_the_tasks_configuration_has() -> None:
    envs = make("Pong-v5", 2)
    for name in ("frame_skip", "noop_max", "repeat_action_probability"):
        with pytest.raises(ArgumentError, match=f"`{name}` belongs to the simulation"):
            envs.set_attr(name, 1)
