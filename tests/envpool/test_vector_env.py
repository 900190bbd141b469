"""What EnvPool's spaces, arrays, keywords and infos become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool")

import envpool
from gymnasium import error

from gymbridge import EnvPoolVectorEnv
from gymbridge.envpool import keywords
from gymbridge.envpool.tasks import is_newer, load_tasks
from gymbridge.errors import ArgumentError, ArgumentTypeError, SimulationError, UnknownTaskError
from tests.support.envpool_runs import check_results, make
from tests.support.player import play


def test_pool__is_built_by_the_first_reset_and_by_each_new_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build, seeds = envpool.make_gymnasium, []

    def build_seen(*args: Any, **kwargs: Any) -> Any:
        seeds.append(kwargs["seed"])
        return build(*args, **kwargs)

    monkeypatch.setattr(envpool, "make_gymnasium", build_seen)
    envs = make("CartPole-v1", 2)
    assert seeds == []
    envs.reset()
    envs.reset()
    envs.reset(options={"reset_mask": np.array([True, False])})
    assert seeds == [list(envs.np_random_seed)]
    envs.reset(seed=1)
    assert seeds[1:] == [[1, 2]]  # Procgen takes an int in another way


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


BAD_KEYWORDS = [
    ("CartPole-v1", "num_thread", 1, r"keyword argument 'num_thread' .*Did you mean 'num_threads'"),
    ("CartPole-v1", "autoreset", "SameStep", "'autoreset' .*Did you mean 'autoreset_mode'"),
    ("CartPole-v1", "differentiable", True, "'differentiable' (.|\n)*have no gradients"),
    ("CartPole-v1", "frame_skip", 4, "keyword argument 'frame_skip' for 'CartPole-v1'"),
    ("CartPole-v1", "seed", 1, r"keyword argument 'seed' .*reset\(seed=...\)"),
    ("CartPole-v1", "batch_size", 2, "keyword argument 'batch_size' "),
    ("TicTacToe-v1", "max_num_players", 3, "argument 'max_num_players' .*own number of players"),
    ("TicTacToe-v1", "n_agents", 2, "argument 'n_agents' .*choose it by the task"),
    ("CartPole-v1", "action_repeat", 4, "keyword argument 'action_repeat' .*`frame_skip`"),
    ("UTurn-v0", "duration", 4, "keyword argument 'duration' .*Use `max_episode_steps`"),
    ("CartPole-v1", "num_threads", -1, "`num_threads` must be at least 0, got -1"),
    ("CartPole-v1", "info_keys", ["elapsed"], "`info_keys` has 'elapsed'.*'elapsed_step'"),
    # Values with which EnvPool ends the process or hangs:
    ("Pong-v5", "frame_skip", -1, "`frame_skip` must be at least 1, got -1"),
    ("Pong-v5", "img_height", -1, "`img_height` must be at least 1, got -1"),
    ("Pong-v5", "noop_max", 0, "`noop_max` must be at least 1, got 0"),
    ("Pong-v5", "task", "pongg", r"`task` .*name an Atari ROM.*'pongg'.*pongg\.bin"),
    ("Pong-v5", "base_path", "nowhere", r"`base_path` .*name an Atari ROM.*'nowhere'"),
    ("CartPole-v1", "num_threads", 10**9, "`num_threads` must be at most 1024, got 1000000000"),
    ("CartPole-v1", "num_threads", "4", "`num_threads` must be an int, got '4'"),
    ("FrozenLake-v1", "size", 5, r"`size` .*one of \(4, 8\) for 'FrozenLake-v1', got 5"),
    ("FrozenLake8x8-v1", "size", "8", "`size` must be an int, got '8'"),
    ("Catch-v0", "height", 1, "`height` must be at least 2, got 1"),
    ("MiniGrid-Empty-5x5-v0", "size", 2, "`size` must be at least 3, got 2"),
    ("MiniGrid-Empty-5x5-v0", "agent_view_size", 0, "`agent_view_size` .*at least 1, got 0"),
    ("MiniGrid-Empty-5x5-v0", "env_name", "doorkeyy", "`env_name` .*got 'doorkeyy'.*'doorkey'"),
]


@pytest.mark.parametrize(("task_id", "name", "value", "message"), BAD_KEYWORDS)
def test_keyword__that_is_wrong_is_named(task_id: str, name: str, value: Any, message: str) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        EnvPoolVectorEnv(task_id, **{"num_envs": 2, name: value})


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


def test_task__that_is_unknown_is_told_with_the_version_and_the_nearest() -> None:
    with pytest.raises(UnknownTaskError, match=r"envpool 1\.\d.*'Cartpole-v1'.*'CartPole-v1'"):
        make("Cartpole-v1")
    with pytest.raises(error.UnregisteredEnv):
        make("EnvPool/CartPole-v1")
    with pytest.raises(ArgumentTypeError, match=r"`task_id` must be the name .* got int"):
        make(5)  # type: ignore[arg-type]


def test_task__that_envpool_cannot_describe_or_build_is_named() -> None:
    with pytest.raises(SimulationError, match="EnvPool cannot describe 'VizdoomCustom-v1'"):
        make("VizdoomCustom-v1")
    envs = make("Sudoku-v0")
    if is_newer(envpool.__version__, "1.2.5"):  # the first whose wheel has the puzzles
        assert envs.reset(seed=0)[0]["board"].shape == (3, 9, 9)
        return
    with pytest.raises(SimulationError, match="EnvPool cannot build 'Sudoku-v0'"):
        envs.reset(seed=0)


def test_task__of_a_newer_envpool_is_told_with_the_version_that_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = {**load_tasks()["CartPole-v1"], "since": "99.1.0"}
    monkeypatch.setattr(keywords, "load_tasks", lambda: {"New-v0": task})
    with pytest.raises(UnknownTaskError, match=r"got 'New-v0'; envpool 99\.1\.0 is the first"):
        make("New-v0")


INFO_KEYS: list[tuple[Any, set[str]]] = [
    (None, {"elapsed_step", "reward_ctrl", "reward_run", "x_position", "x_velocity"}),
    (["env_id", "players.env_id"], {"env_id", "players"}),
    (["elapsed_step"], {"elapsed_step"}),
    ([], set()),
]
ALL = INFO_KEYS[0][1] | INFO_KEYS[1][1]


@pytest.mark.parametrize(("info_keys", "names"), [*INFO_KEYS, ("all", ALL)])
def test_info_keys__choose_the_infos(info_keys: Any, names: set[str], mode: str) -> None:
    envs = make("HalfCheetah-v5", 3, mode, info_keys=info_keys, max_episode_steps=2)
    log = play(envs, 3)
    check_results(envs, log)
    for *_, infos in log[:3]:
        assert {key for key in infos if key[0] != "_" and "final" not in key} == names
        if "players" in names:
            np.testing.assert_array_equal(infos["players"]["env_id"], infos["env_id"])
            np.testing.assert_array_equal(infos["env_id"], [0, 1, 2])


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
        envs.reset(seed=3)
    assert envs.get_attr("np_random_seed") == (3, 4)


FIXED = {
    "CartPole-v1": "num_threads max_episode_steps config step _max_episode_steps"
    " config.num_threads np_random autoreset_mode",
    "Pong-v5": "frame_skip noop_max repeat_action_probability",
}


@pytest.mark.parametrize("task_id", FIXED)
def test_set_attr__of_what_is_fixed_is_an_error_and_of_the_users_own_is_kept(task_id: str) -> None:
    envs = make(task_id, 2)
    for name in FIXED[task_id].split():
        with pytest.raises(ArgumentError, match=f"`{name}` belongs to the simulation and is fixed"):
            envs.set_attr(name, 3)
        assert name == "config" or not envs.call("has_wrapper_attr", name)[0]
    for name in ("label", "count", "my_state"):
        assert envs.call("has_wrapper_attr", name) == (False, False)
        envs.set_attr(name, [3, 4])
        assert envs.get_attr(name) == (3, 4)
        assert envs.call("has_wrapper_attr", name) == (True, True)


@pytest.mark.parametrize("name", ["get_state", "set_state", "save_state", "load_state"])
def test_snapshots__are_refused(name: str) -> None:
    envs = make("CartPole-v1", 2)
    envs.reset(seed=0)
    with pytest.raises(SimulationError, match="EnvPool has no snapshots, because"):
        getattr(envs, name)(*([] if name == "get_state" else ["state"]))
    envs.step(np.zeros(2, int))
