"""The asynchronous pool: what is refused, in which order calls may come, and interrupts."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tests.support.trees import assert_same

pytest.importorskip("envpool.registration")

from gymbridge.envpool import AsyncEnvPool
from gymbridge.errors import (
    ActionError,
    ArgumentError,
    BusyError,
    ClosedError,
    KeywordError,
    ResetNeededError,
)
from tests.support.envpool_runs import take


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
        (lambda pool, ids: pool.send([0, 1], [0, 9]), ArgumentError, "0 to 3"),
        (lambda pool, ids: pool.send([0], 3 - ids[:1]), ArgumentError, "still being stepped"),
        (lambda pool, ids: pool.async_reset(), ArgumentError, "needs `seed` or `env_ids`"),
        (lambda pool, ids: pool.async_reset(seed=1, env_ids=ids), ArgumentError, "cannot be"),
        (lambda pool, ids: pool.async_reset(seed=[1, None, 2, 3]), ArgumentError, "every env"),
        (lambda pool, ids: pool.async_reset(seed=[1]), ArgumentError, "4 environments"),
        (lambda pool, ids: pool.async_reset(env_ids=3 - ids[:1]), ArgumentError, "being stepped"),
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
    with pytest.raises(ArgumentError, match="wait for 2 environments, but only 1 are"):
        pool.recv()
    with pytest.raises(ArgumentError, match="which are still being stepped or reset"):
        pool.send([0], pool.waiting[:1])
    pool.send([0], pool.waiting[1:])
    assert len(pool.recv()[0]) == 2


@pytest.mark.parametrize(
    ("kwargs", "error", "text"),
    [
        ({"batch_size": 4}, ArgumentError, "smaller than `num_envs`, got 4 of 4"),
        ({"batch_size": 5}, ArgumentError, "smaller than `num_envs`"),
        ({"batch_size": 0}, ArgumentError, "`batch_size`"),
        ({"batch_size": 2, "wisdom": 1}, KeywordError, "AsyncEnvPool.*'wisdom'"),
        ({"batch_size": 2, "seed": 1}, KeywordError, "Give seeds to"),
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
