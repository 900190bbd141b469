"""Tasks with several players, beside EnvPool's own step."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool")

from gymnasium import spaces

from gymbridge.envpool import AsyncEnvPool
from gymbridge.envpool.players import Players
from gymbridge.envpool.tasks import load_tasks
from gymbridge.errors import ArgumentError, ResetNeededError
from tests.support.envpool_runs import MODES, check_results, make
from tests.support.envpool_tables import Games, OwnTable, TableRow, play, play_own
from tests.support.oracle import Oracle, check_run
from tests.support.player import play as play_calls
from tests.support.trees import assert_same

TASKS = [
    task_id
    for task_id, task in load_tasks().items()
    if task["max_num_players"] > 1 and "since" not in task
]

NUM_TABLES = 17


def own_keywords(task_id: str) -> dict[str, Any]:
    """Return what EnvPool's own pool gets in place of a time limit."""
    return {"duration": 10**6} if load_tasks()[task_id]["family"] == "highway" else {}


@pytest.mark.slow
@pytest.mark.parametrize("task_id", TASKS)
def test_games__are_those_of_the_pools_own_step(task_id: str) -> None:
    """17 whole games in every mode, with illegal moves; 51 of each of the 22 tasks."""
    envs = make(task_id, NUM_TABLES)
    seats = 1 if envs.takes_turns else envs.num_players
    size = NUM_TABLES, getattr(envs.single_action_space, "n", 3), seats
    own = play_own(Games(*size), task_id, **own_keywords(task_id))
    assert bool(own.slips) == (envs.takes_turns and not task_id.startswith("Kuhn"))
    for mode in MODES:
        envs = make(task_id, NUM_TABLES, mode, max_episode_steps=-1)
        assert play(Games(*size), envs).moments == own.moments
        envs.close()


def test_tasks__are_22() -> None:
    assert len(TASKS) == 22


@pytest.mark.parametrize(
    ("task_id", "limit", "num_envs", "arrays"),
    [
        ("IntersectionMultiAgent-v0", 4, 6, "numpy"),
        ("KuhnPoker-v1", 2, 6, "numpy"),
        ("TicTacToe-v1", -1, 6, "numpy"),
        ("TicTacToe-v1", 2, 1, "torch"),  # one block, of one environment
        ("TicTacToe-v1", 2, 10, "jax"),  # two blocks, which a partial step does not fill
    ],
)
def test_batch__is_one_of_envpools_own_pools_per_environment(
    task_id: str, limit: int, num_envs: int, arrays: str, mode: str
) -> None:
    """With partial resets, held rows and random actions, illegal ones too."""
    pytest.importorskip(arrays)
    envs = make(task_id, num_envs, mode, max_episode_steps=limit, arrays=arrays)
    counted = None if limit == -1 else limit
    tables = [OwnTable(task_id, seed, **own_keywords(task_id)) for seed in range(3, 3 + num_envs)]
    oracle = Oracle(envs, [TableRow(table, counted) for table in tables])
    check_run(oracle, 300, seed=3, act=partial(draw, envs), draw=MODES.index(mode))
    assert oracle.ends["terminated"] > 0  # the cars of newer versions seldom crash so early
    assert oracle.ends["truncated"] > 5 or limit == -1
    envs.close()


def draw(envs: Any, index: int) -> np.ndarray:
    """Return random actions; those of TicTacToe are the first two, so that games end soon."""
    shape = envs.num_envs, *envs.single_action_space.shape
    return np.random.default_rng(index).integers(0, 2 if envs.takes_turns else 3, shape, np.int32)


def test_turns__give_each_player_the_view_the_reward_and_the_legal_moves() -> None:
    envs = make("TicTacToe-v1", 1, "SameStep")
    assert (envs.num_players, envs.takes_turns) == (2, True)
    assert envs.single_observation_space == spaces.MultiBinary((3, 3, 2))
    _, infos = envs.reset(seed=0)
    (first,) = infos["current_player"]
    assert infos["legal_action_mask"].shape == (1, 9)
    assert_same(infos["rewards"], np.zeros((1, 2), np.float32))
    assert "players" not in infos
    for move in (0, 3, 1, 4):
        obs, rewards, *_, infos = envs.step([move])
        assert (rewards[0], infos["current_player"][0] == first) == (0, move > 2)
    assert obs[0, 0, :2, 0].all()  # the stones of the player to move
    assert infos["legal_action_mask"][0].nonzero()[0].tolist() == [2, 5, 6, 7, 8]
    obs, rewards, terminations, _, infos = envs.step([2])
    assert (rewards[0], terminations[0], obs.any()) == (1, True, False)
    assert infos["final_info"]["rewards"][0].tolist() == [1 - 2 * first, 2 * first - 1]
    assert not infos["rewards"].any()


def test_players_at_once__have_an_axis_and_add_up_their_rewards() -> None:
    envs = make("IntersectionMultiAgent-v0", 3)
    assert (envs.num_players, envs.takes_turns) == (2, False)
    shape = envs.single_observation_space.shape
    assert (len(shape), shape[0]) == (3, 2)
    assert envs.single_action_space == spaces.MultiDiscrete([3, 3], dtype=np.int32)
    log = play_calls(envs, 12, act=partial(draw, envs))
    check_results(envs, log)
    for obs, rewards, *_, infos in log[1:]:
        assert obs.shape == (3, *shape)
        np.testing.assert_array_equal(rewards, infos["rewards"].sum(1))
        assert infos["players"]["speed"].shape == infos["rewards"].shape == (3, 2)


def test_players__who_observe_a_dict_are_refused() -> None:
    spec = SimpleNamespace(
        config=SimpleNamespace(max_num_players=4),
        gymnasium_observation_space=spaces.Dict(),
        _state_keys=[],
    )
    with pytest.raises(ArgumentError, match="observe one array each, got 'Soccer', whose 4 play"):
        Players("Soccer", spec)


def test_interrupted_call__is_followed_by_the_first_games_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its pool would wait for ever for what is lost."""
    envs: Any = make("TicTacToe-v1", 3)
    log = play_calls(envs, 9, act=partial(draw, envs))
    exchange = envs._simulator.pool._exchange

    def interrupt() -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(envs._simulator.pool, "_exchange", exchange._replace(receive=interrupt))
        with pytest.raises(KeyboardInterrupt):
            envs.step([0, 0, 0])
    with pytest.raises(ResetNeededError):
        envs.step([0, 0, 0])
    assert_same(play_calls(envs, 9, seed=None, act=partial(draw, envs)), log)


def test_asynchronous_pool__has_the_same_games() -> None:
    pool, games = AsyncEnvPool("TicTacToe-v1", 5, 2), dict[int, list[Any]]()
    pool.async_reset(seed=3)
    for _ in range(40):
        obs, rewards, *flags, infos = pool.recv()
        ids = infos.pop("env_id")
        for row, table in enumerate(ids):
            moment = [obs[row], rewards[row], flags[0][row], infos["rewards"][row]]
            games.setdefault(table, []).append(moment)
        pool.send([len(games[table]) % 2 for table in ids], ids)
    pool.close()
    envs = make("TicTacToe-v1", 5)
    log = play_calls(envs, 40, act=lambda index: np.full(5, (index + 1) % 2))
    for table, moments in games.items():
        assert len(moments) > 5
        for index, (obs, reward, terminated, rewards) in enumerate(moments[1:], 1):
            returned = log[index]
            assert_same(obs, returned[0][table])
            assert (reward, terminated) == (returned[1][table], returned[2][table])
            assert_same(rewards, returned[-1]["rewards"][table])
