"""The asynchronous pool: each environment's episodes are those of the synchronous batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.batches import to_numpy
from tests.support.player import play
from tests.support.trees import assert_same, scribble

pytest.importorskip("envpool.registration")

from gymbridge import EnvPoolVectorEnv
from gymbridge.envpool import AsyncEnvPool
from tests.support.envpool_runs import take

NUM_ENVS, BATCH, LENGTH = 7, 3, 27
TASKS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"max_episode_steps": 11},
    "FrozenLake-v1": {},
    "LunarLander-v3": {"max_episode_steps": 9},
    "FetchReach-v4": {"max_episode_steps": 6},
    "CheetahRun-v1": {"max_episode_steps": 5},  # repeats its last reward as it begins anew
    "MiniGrid-Empty-5x5-v0": {"max_episode_steps": 10},
    "Blackjack-v1": {"max_episode_steps": 1},
    "Breakout-v5": {  # whose lost lives go on with the game, also on the last allowed step
        "episodic_life": True,
        "max_episode_steps": 24,
        "noop_max": 1,
        "info_keys": ["lives"],
    },
}


def draw(space: Any, env: int, turn: int) -> Any:
    """Return the action of an environment's turn, the same however it is stepped."""
    rng = np.random.default_rng(1000 * env + turn)
    if space.shape == ():
        return int(rng.integers(space.n))
    return rng.uniform(-1, 1, space.shape).astype(space.dtype)


def is_reset(env: int, turn: int) -> bool:
    """Whether an environment is reset by hand after a turn."""
    return (env * 5 + turn * 3) % 17 == 4


def play_together(task: str, **kwargs: Any) -> list[list[Any]]:
    """Return the answers of each environment of a synchronous batch."""
    envs = EnvPoolVectorEnv(task, NUM_ENVS, **kwargs)

    def act(turn: int) -> np.ndarray:
        return np.stack([draw(envs.single_action_space, env, turn) for env in range(NUM_ENVS)])

    (obs, infos), *log = play(envs, LENGTH, act=act)
    zeros = np.zeros(NUM_ENVS)
    calm = zeros.astype(np.float32), zeros.astype(bool), zeros.astype(bool)
    log.insert(0, (obs, *calm, infos))
    return [[take(returned, env) for returned in log] for env in range(NUM_ENVS)]


def play_apart(task: str, resets: bool = False, **kwargs: Any) -> tuple[list[list[Any]], list[int]]:
    """Return the answers of each environment of an asynchronous pool, and who came when."""
    pool = AsyncEnvPool(task, NUM_ENVS, BATCH, **kwargs)
    pool.async_reset(seed=3)
    assert pool.np_random_seed == tuple(range(3, 3 + NUM_ENVS))
    stories: list[list[Any]] = [[] for _ in range(NUM_ENVS)]
    order: list[int] = []
    while min(map(len, stories)) <= LENGTH:
        returned = pool.recv()
        ids = returned[-1].pop("env_id")
        assert len(set(ids.tolist())) == BATCH
        order += ids.tolist()
        for row, env in enumerate(ids):
            stories[env].append(take(returned, row))
        turns = {int(env): len(stories[env]) - 1 for env in ids}
        by_hand = [env for env, turn in turns.items() if resets and is_reset(env, turn)]
        steps = np.array([env for env in turns if env not in by_hand], np.int32)
        steps = np.random.default_rng(len(order)).permutation(steps)
        if by_hand:
            pool.async_reset(env_ids=by_hand)
        if steps.size:
            pool.send([draw(pool.single_action_space, env, turns[env]) for env in steps], steps)
    pool.close()
    return [story[: LENGTH + 1] for story in stories], order


@pytest.mark.parametrize("task", TASKS)
def test_episodes__are_those_of_the_synchronous_batch(task: str) -> None:
    found, order = play_apart(task, **TASKS[task])
    wanted = play_together(task, **TASKS[task])
    for here, there in zip(found, wanted, strict=True):
        assert_same(here, there)
    ends = sum(answer[2] or answer[3] for story in found for answer in story)
    assert ends > NUM_ENVS or task == "Breakout-v5"
    if task == "Breakout-v5":
        lives = [int(answer[4]["lives"]) for story in found for answer in story]
        assert min(lives) < max(lives)
    assert order != sorted(order)


@pytest.mark.parametrize("task", ["CartPole-v1", "LunarLander-v3", "FrozenLake-v1"])
def test_partial_resets__continue_each_random_stream(task: str) -> None:
    """By id, in place of `send`; `EnvPoolVectorEnv` does so with one environment at a time."""
    kwargs = TASKS[task]
    found, _ = play_apart(task, resets=True, **kwargs)
    for env in range(NUM_ENVS):
        one = EnvPoolVectorEnv(task, 1, **kwargs)
        obs, infos = one.reset(seed=3 + env)
        calm = np.zeros(1, np.float32), np.zeros(1, bool), np.zeros(1, bool)
        wanted = [take((obs, *calm, infos), 0)]
        for turn in range(LENGTH):
            if is_reset(env, turn):
                obs, infos = one.reset(options={"reset_mask": np.ones(1, bool)})
                wanted.append(take((obs, *calm, infos), 0))
            else:
                action = np.stack([draw(one.single_action_space, env, turn)])
                wanted.append(take(one.step(action), 0))
        assert_same(found[env], wanted)


def test_results__are_the_user_s_own() -> None:
    """No later call writes into them, and who writes into them changes no episode."""

    def play(touch: Any) -> list[list[Any]]:
        pool = AsyncEnvPool("CartPole-v1", 6, 2, max_episode_steps=2)
        pool.async_reset(seed=0)
        stories: list[list[Any]] = [[] for _ in range(6)]
        while min(map(len, stories)) < 5:
            returned = pool.recv()
            ids = returned[-1]["env_id"].copy()
            for row, env in enumerate(ids):
                stories[env].append(take(returned, row))
            touch(returned)
            pool.send(ids % 2, ids)
        return [story[:5] for story in stories]

    kept: list[Any] = []
    wanted = play(lambda returned: kept.append((returned, to_numpy(returned))))
    assert_same(play(scribble), wanted)
    for returned, copied in kept:
        assert_same(to_numpy(returned), copied)


def test_rewards__are_zero_where_an_episode_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of dm_control answer the first reset with what their memory held, which can be NaN."""
    pool = AsyncEnvPool("CartPole-v1", 4, 2, max_episode_steps=2)
    receive = pool._pool.receive

    def receive_nan() -> Any:
        values = receive()
        values[pool._layout.reward_place][:] = np.nan
        return values

    monkeypatch.setattr(pool._pool, "receive", receive_nan)
    pool.async_reset(seed=0)
    found: list[list[float]] = [[] for _ in range(4)]
    while min(map(len, found)) < 4:
        _, rewards, *_, infos = pool.recv()
        for env, reward in zip(infos["env_id"], rewards.tolist(), strict=True):
            found[env].append(reward)
        pool.send([0, 1], infos["env_id"])
    for rewards in found:
        np.testing.assert_array_equal(rewards[:4], [0, np.nan, np.nan, 0])


@pytest.mark.parametrize("task", ["CartPole-v1", "HalfCheetah-v5"])
def test_arguments__may_be_changed_after_the_call(task: str) -> None:
    """The pool reads actions while it steps; both have the dtypes that it takes as they are."""

    def play(changes: bool) -> list[np.ndarray]:
        pool = AsyncEnvPool(task, 64, 32, num_threads=1)
        space = pool.single_action_space
        pool.async_reset(seed=0)
        obs = np.zeros((64, *pool.single_observation_space.shape))
        for _ in range(6):
            returned = pool.recv()
            ids = returned[-1]["env_id"].copy()
            obs[ids] = returned[0]
            actions = np.ones((32, *space.shape), space.dtype)
            pool.send(actions, ids)
            if changes:
                actions[:], ids[:] = 0, 0
        pool.close()
        return obs

    assert_same(play(True), play(False))
