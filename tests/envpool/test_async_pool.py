"""The asynchronous pool: each environment's episodes are those of the synchronous batch."""

from __future__ import annotations

import signal
import threading
from typing import Any

import numpy as np
import pytest
from batches import to_numpy
from trees import assert_same

pytest.importorskip("envpool.registration")

from gymbridge import EnvPoolVectorEnv
from gymbridge.envpool import AsyncEnvPool
from gymbridge.errors import (
    ActionError,
    ArgumentError,
    ArgumentTypeError,
    BusyError,
    ClosedError,
    KeywordError,
    ResetNeededError,
)

NUM_ENVS, BATCH, LENGTH = 7, 3, 24
TASKS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"max_episode_steps": 11},
    "FrozenLake-v1": {},
    "LunarLander-v3": {"max_episode_steps": 9},
    "HalfCheetah-v5": {"max_episode_steps": 5},
    "FetchReach-v4": {"max_episode_steps": 6},
    "CheetahRun-v1": {"max_episode_steps": 5},  # repeats its last reward as it begins anew
    "MiniGrid-Empty-5x5-v0": {"max_episode_steps": 10},
    "Blackjack-v1": {"max_episode_steps": 1},
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


def take(returned: Any, row: int) -> Any:
    """Return one row of what a call returned, without masks."""

    def pick(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {key: pick(x) for key, x in tree.items() if not key.startswith("_")}
        return tree[row]

    return [pick(part) for part in to_numpy(returned)]


def play_together(task: str, **kwargs: Any) -> list[list[Any]]:
    """Return the answers of each environment of a synchronous batch."""
    envs = EnvPoolVectorEnv(task, NUM_ENVS, **kwargs)
    obs, infos = envs.reset(seed=3)
    zeros = np.zeros(NUM_ENVS)
    calm = zeros.astype(np.float32), zeros.astype(bool), zeros.astype(bool)
    stories = [[take((obs, *calm, infos), env)] for env in range(NUM_ENVS)]
    for turn in range(LENGTH):
        chosen = [draw(envs.single_action_space, env, turn) for env in range(NUM_ENVS)]
        returned = to_numpy(envs.step(np.stack(chosen)))
        for env, story in enumerate(stories):
            story.append(take(returned, env))
    return stories


def play_apart(task: str, envs: int = NUM_ENVS, **kwargs: Any) -> tuple[list[list[Any]], list[int]]:
    """Return the answers of each environment of an asynchronous pool, and who came when."""
    pool = AsyncEnvPool(task, envs, BATCH, **kwargs)
    pool.async_reset(seed=3)
    assert pool.np_random_seed == tuple(range(3, 3 + envs))
    stories: list[list[Any]] = [[] for _ in range(envs)]
    order: list[int] = []
    while min(map(len, stories)) <= LENGTH:
        returned = pool.recv()
        ids = returned[-1].pop("env_id")
        assert len(set(ids.tolist())) == BATCH
        order += ids.tolist()
        for row, env in enumerate(ids):
            stories[env].append(take(returned, row))
        space = pool.single_action_space
        actions = [draw(space, env, len(stories[env]) - 1) for env in ids]
        turn = np.random.default_rng(len(order)).permutation(BATCH)
        pool.send([actions[row] for row in turn], ids[turn])
    pool.close()
    return [story[: LENGTH + 1] for story in stories], order


@pytest.mark.parametrize("task", TASKS)
def test_episodes__are_those_of_the_synchronous_batch(task: str) -> None:
    found, order = play_apart(task, **TASKS[task])
    wanted = play_together(task, **TASKS[task])
    for here, there in zip(found, wanted, strict=True):
        assert_same(here, there)
    ends = sum(answer[2] or answer[3] for story in found for answer in story)
    assert ends > NUM_ENVS
    assert order != sorted(order)


def test_lost_lives__go_on_with_the_game() -> None:
    kwargs = {"episodic_life": True, "max_episode_steps": 90, "noop_max": 1, "info_keys": ["lives"]}
    found, _ = play_apart("Breakout-v5", **kwargs)
    wanted = play_together("Breakout-v5", **kwargs)
    for here, there in zip(found, wanted, strict=True):
        assert_same(here, there)


@pytest.mark.parametrize("task", ["CartPole-v1", "LunarLander-v3", "FrozenLake-v1"])
def test_partial_resets__continue_each_random_stream(task: str) -> None:
    """By id, in place of `send`; `EnvPoolVectorEnv` does so with one environment at a time."""
    kwargs = TASKS[task]
    pool = AsyncEnvPool(task, NUM_ENVS, BATCH, **kwargs)
    pool.async_reset(seed=3)
    found: list[list[Any]] = [[] for _ in range(NUM_ENVS)]
    while min(map(len, found)) <= LENGTH:
        returned = pool.recv()
        ids = returned[-1].pop("env_id")
        for row, env in enumerate(ids):
            found[env].append(take(returned, row))
        turns = {int(env): len(found[env]) - 1 for env in ids}
        by_hand = [env for env, turn in turns.items() if is_reset(env, turn)]
        steps = [env for env in turns if env not in by_hand]
        if by_hand:
            pool.async_reset(env_ids=by_hand)
        if steps:
            pool.send([draw(pool.single_action_space, env, turns[env]) for env in steps], steps)
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
        assert_same(found[env][: LENGTH + 1], wanted)


def test_results__are_the_user_s_own() -> None:
    pool = AsyncEnvPool("CartPole-v1", 6, 2)
    pool.async_reset(seed=0)
    kept = [pool.recv() for _ in range(3)]
    before = to_numpy(kept)
    for _, *_, infos in kept:
        pool.send([0, 1], infos["env_id"])
    for _ in range(3):
        pool.recv()
    assert_same(to_numpy(kept), before)
    assert all(array.flags.writeable for array in kept[0][:4])


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


@pytest.fixture
def pool() -> Any:
    """Four CartPoles, two of which wait."""
    pool = AsyncEnvPool("CartPole-v1", 4, 2)
    pool.async_reset(seed=0)
    pool.waiting = pool.recv()[-1]["env_id"]
    return pool


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda pool, ids: pool.send([0, 1, 0], ids), ActionError, "one action per environment"),
        (lambda pool, ids: pool.send([0, 2], ids), ActionError, "must lie in"),
        (lambda pool, ids: pool.send([0, 1], [ids[0]] * 2), ArgumentError, "must be different"),
        (lambda pool, ids: pool.send([0, 1], [0, 9]), ArgumentError, "0 to 3"),
        (lambda pool, ids: pool.send([0, 1], [-1, 0]), ArgumentError, "0 to 3"),
        (lambda pool, ids: pool.send([], np.zeros(0, int)), ArgumentError, "at least one"),
        (lambda pool, ids: pool.send([0, 1], [0.0, 1.0]), ArgumentTypeError, "array of ints"),
        (lambda pool, ids: pool.send([0], 3 - ids[:1]), ArgumentError, "which are under way"),
        (lambda pool, ids: pool.async_reset(), ArgumentError, "needs `seed` or `env_ids`"),
        (lambda pool, ids: pool.async_reset(seed=1, env_ids=ids), ArgumentError, "cannot be"),
        (lambda pool, ids: pool.async_reset(seed=[1, None, 2, 3]), ArgumentError, "every env"),
        (lambda pool, ids: pool.async_reset(seed=[1]), ArgumentError, "4 environments"),
        (lambda pool, ids: pool.async_reset(env_ids=3 - ids[:1]), ArgumentError, "under way"),
    ],
)
def test_bad_calls__raise_and_change_nothing(pool: Any, call: Any, error: Any, text: str) -> None:
    twin = AsyncEnvPool("CartPole-v1", 4, 2)
    twin.async_reset(seed=0)
    ids = twin.recv()[-1]["env_id"]
    with pytest.raises(error, match=text):
        call(pool, pool.waiting)
    for one, waiting in ((pool, pool.waiting), (twin, ids)):
        one.send([0, 1], np.sort(waiting))
    found, wanted = (
        {
            int(env): take(returned, row)
            for returned in (one.recv(), one.recv())
            for row, env in enumerate(returned[-1]["env_id"])
        }
        for one in (pool, twin)
    )
    assert_same(found, wanted)


def test_recv__does_not_wait_for_ever(pool: Any) -> None:
    pool.recv()
    pool.send([0], pool.waiting[:1])
    with pytest.raises(ArgumentError, match="needs 2 environments under way, and 1 are"):
        pool.recv()
    with pytest.raises(ArgumentError, match="which are under way"):
        pool.send([0], pool.waiting[:1])
    pool.send([0], pool.waiting[1:])
    assert len(pool.recv()[0]) == 2


@pytest.mark.parametrize(
    ("kwargs", "error", "text"),
    [
        ({"batch_size": 4}, ArgumentError, "smaller than `num_envs`, got 4 of 4"),
        ({"batch_size": 5}, ArgumentError, "smaller than `num_envs`"),
        ({"batch_size": 0}, ArgumentError, "`batch_size`"),
        ({"batch_size": 2.0}, ArgumentTypeError, "`batch_size`"),
        ({"batch_size": 2, "wisdom": 1}, KeywordError, "AsyncEnvPool.*'wisdom'"),
        ({"batch_size": 2, "seed": 1}, KeywordError, "Seeds are given to"),
    ],
)
def test_construction__refuses(kwargs: dict[str, Any], error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        AsyncEnvPool("CartPole-v1", 4, **kwargs)


def test_order_of_calls__is_told(pool: Any) -> None:
    fresh = AsyncEnvPool("CartPole-v1", 4, 2)
    for call in (fresh.recv, lambda: fresh.send([0], [0]), lambda: fresh.async_reset(env_ids=[0])):
        with pytest.raises(ResetNeededError, match="async_reset"):
            call()
    fresh.async_reset()
    assert len(set(fresh.np_random_seed)) == 4
    pool.close()
    pool.close()
    for call in (pool.recv, lambda: pool.send([0], [0]), lambda: pool.async_reset(seed=1)):
        with pytest.raises(ClosedError):
            call()


def test_interrupted_receive__asks_for_a_new_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = AsyncEnvPool("CartPole-v1", 4, 2)
    pool.async_reset(seed=0)
    first = pool.recv()

    def interrupt() -> Any:
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(pool._pool, "receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pool.recv()
    with pytest.raises(ResetNeededError, match="interrupted"):
        pool.recv()
    pool.async_reset(seed=0)
    again = pool.recv()
    assert_same(sorted(again[0].tolist()), sorted(first[0].tolist()))


def test_second_thread__is_refused(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[Exception] = []

    def call() -> None:
        try:
            pool.recv()
        except BusyError as error:
            errors.append(error)

    receive = pool._pool.receive

    def slow() -> Any:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        return receive()

    monkeypatch.setattr(pool._pool, "receive", slow)
    pool.recv()
    assert len(errors) == 1
