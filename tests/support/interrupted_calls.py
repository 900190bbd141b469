"""What is checked of a batch that Ctrl-C interrupted; a child process runs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gymbridge.errors import EpisodeEndedError, ResetNeededError
from tests.support.batches import make_batch, to_kind, to_numpy
from tests.support.interrupts import count_places, interrupted_at
from tests.support.player import play
from tests.support.trees import assert_same

Calls = dict[str, Callable[[Any], Any]]

NUM_ENVS, LIMIT, BEGUN = 4, 3, 2
ALL = np.ones(NUM_ENVS, np.bool_)


def _act(envs: Any) -> Any:
    return to_kind(np.zeros_like(envs.action_space.sample()), envs.arrays)


def _mask(envs: Any) -> Any:
    return to_kind(np.arange(NUM_ENVS) < 2, envs.arrays)


CALLS: Calls = {
    "step": lambda envs: envs.step(_act(envs)),
    "step_some": lambda envs: envs.step_some(_act(envs), _mask(envs)),
    "reset": lambda envs: envs.reset(),
    "seeded reset": lambda envs: envs.reset(seed=50),
    "partial reset": lambda envs: envs.reset(options={"reset_mask": _mask(envs)}),
    "step with a graph": lambda envs: envs.step(_act(envs).requires_grad_()),
    "render": lambda envs: envs.render(),
    "snapshot": lambda envs: envs.set_state(envs.get_state()),
}
"""Calls that are interrupted. The step is the one in which the limit cuts the episodes."""


def check_batch(
    engine: str, mode: str, arrays: str, names: list[str], error: type[BaseException], options: Any
) -> dict[str, dict[str, int]]:
    """Interrupt calls of one batch at all of their places.

    After it the batch stands where it stood before the call, or where it stands after it, or asks
    for a reset; and runs as another one in each case.

    Returns:
        How often which of the three was met, by the call's name.
    """
    given = {"limit": LIMIT, "arrays": arrays, **options}
    envs, twin = (make_batch(engine, mode, num_envs=NUM_ENVS, **given) for _ in range(2))
    return {name: _check_call(envs, twin, CALLS[name], error) for name in names}


def _check_call(envs: Any, twin: Any, call: Callable[[Any], Any], error: Any) -> dict[str, int]:
    _begin(twin)
    wanted = {"before": _go_on(twin)}
    _begin(twin)
    call(twin)
    wanted["after"] = _go_on(twin)
    wanted["fresh"] = play(twin, 5, seed=9)
    _begin(envs)
    call(envs)  # which compiles
    _begin(envs)
    places = count_places(lambda: call(envs))
    met = dict.fromkeys(("before", "after", "reset"), 0)
    for place in range(places):
        _begin(envs)
        interrupted_at(place, lambda: call(envs), error())
        met[_check_batch(envs, twin, wanted)] += 1
        if place % 10 == 0:
            assert_same(play(envs, 5, seed=9), wanted["fresh"], f"place {place}")
    return met


def _begin(envs: Any) -> None:
    envs.reset(seed=3)
    for _ in range(BEGUN):
        _step(envs)


def _step(envs: Any) -> list[Any]:
    """Take a step, and return what it and a reset of what it ended return."""
    return play(envs, 1, begins=False, act=lambda _: _act(envs))


def _go_on(envs: Any) -> list[Any]:
    """Return what two steps and a reset return, and the seeds that the batch reports."""
    log: list[Any] = []
    try:
        log += _step(envs)
    except EpisodeEndedError:
        log += ["had ended", to_numpy(envs.reset(options={"reset_mask": ALL}))]
    return [*log, *_step(envs), to_numpy(envs.reset()), list(envs.np_random_seed)]


def _check_batch(envs: Any, twin: Any, wanted: dict[str, Any]) -> str:
    try:
        found = _go_on(envs)
    except ResetNeededError as error:
        assert "all `reset()`" in str(error)  # noqa: PT017
        return _check_reset(envs, twin)
    if _is_same(found, wanted["before"]):
        return "before"
    assert_same(found, wanted["after"])
    return "after"


def _check_reset(envs: Any, twin: Any) -> str:
    """Check that a batch which asks for a reset draws on from the seeds that it reports.

    Nothing else is possible before: what the pool still holds would be read as a later answer.
    """
    with pytest.raises(ResetNeededError):
        envs.reset(options={"reset_mask": _mask(envs)})
    if envs.render_mode:
        with pytest.raises(ResetNeededError):
            envs.render()
    begun = [to_numpy(envs.reset())[0] for _ in range(2)]
    twin.reset(seed=list(envs.np_random_seed))
    wanted = [twin.reset(seed=list(envs.np_random_seed))[0]]
    wanted = [to_numpy(obs) for obs in (*wanted, *(twin.reset()[0] for _ in range(7)))]
    for row in range(NUM_ENVS):
        streams = [[obs[row].tolist() for obs in log] for log in (wanted, begun)]
        place = streams[0].index(streams[1][0])
        assert streams[0][place + 1] == streams[1][1]
    return "reset"


def check_saves(path: str) -> dict[str, int]:
    """Interrupt `save_state` and `load_state` at all of their places.

    Returns:
        At how many places of each.
    """
    envs, twin = (make_batch("brax", "NextStep", limit=LIMIT) for _ in range(2))
    _begin(envs)
    envs.save_state(path)
    old = _read(path)
    envs.step(_act(envs))
    later = envs.get_state()
    first = Path(path).read_bytes()
    places = count_places(lambda: envs.save_state(path))
    new = _read(path)
    assert new != old
    for place in range(places):
        Path(path).write_bytes(first)
        interrupted_at(place, lambda: envs.save_state(path), KeyboardInterrupt())
        assert _read(path) in (old, new)
        assert [file.name for file in Path(path).parent.iterdir()] == [Path(path).name]
    return {"save": places, "load": _check_loads(envs, twin, path, later)}


def _read(path: str) -> dict[str, Any]:
    """Return the contents of a snapshot, without the times that are in its archive."""
    with np.load(path) as entries:
        return {name: np.asarray(entries[name]).tobytes() for name in entries.files}


def _check_loads(envs: Any, twin: Any, path: str, later: Any) -> int:
    wanted = []
    for begin in (lambda: twin.set_state(later), lambda: twin.load_state(path)):
        begin()
        wanted.append(_go_on(twin))
    envs.load_state(path)  # which compiles
    places = count_places(lambda: envs.load_state(path))
    for place in range(places):
        envs.set_state(later)
        interrupted_at(place, lambda: envs.load_state(path), KeyboardInterrupt())
        found = _go_on(envs)
        assert any(_is_same(found, one) for one in wanted), f"place {place}"
    return places


def _is_same(left: Any, right: Any) -> bool:
    try:
        assert_same(left, right)
    except AssertionError:
        return False
    return True


def check_asynchronous_pool() -> dict[str, dict[str, int]]:
    """Interrupt the calls of an `AsyncEnvPool` at all of their places.

    Returns:
        How often it went on, and how often it asked for a reset, by the call's name.
    """
    from gymbridge.envpool import AsyncEnvPool

    pool = AsyncEnvPool("CartPole-v1", NUM_ENVS, 2, max_episode_steps=LIMIT)
    calls = {
        "recv": lambda ids: pool.recv(),
        "send": lambda ids: pool.send([0, 1], ids),
        "reset": lambda ids: pool.async_reset(env_ids=ids),
        "seeded reset": lambda ids: pool.async_reset(seed=50),
    }
    met = {name: {"goes on": 0, "reset": 0} for name in calls}
    for name, call in calls.items():
        ids = _begin_pool(pool)
        for place in range(count_places(lambda: call(ids))):  # noqa: B023
            ids = _begin_pool(pool)
            interrupted_at(place, lambda: call(ids), KeyboardInterrupt())  # noqa: B023
            met[name][_check_pool(pool)] += 1
    return met


def _begin_pool(pool: Any) -> Any:
    """Begin anew, and return two environments that wait after a step."""
    pool.async_reset(seed=3)
    ids = pool.recv()[-1]["env_id"]
    pool.send([0, 0], ids)
    return pool.recv()[-1]["env_id"]


def _check_pool(pool: Any) -> str:
    """Check that every environment that is under way is counted, and comes."""
    try:
        pool._check_running()
        while pool._progress.coming >= pool.batch_size:
            pool.recv()
        waiting = np.flatnonzero(~pool._progress.is_away)
        assert len(waiting) + pool._progress.coming == pool.num_envs
        pool.send([0] * len(waiting), waiting)
    except ResetNeededError:
        pool.async_reset(seed=list(pool.np_random_seed))
        begun = _take_all(pool)
        twin = type(pool)("CartPole-v1", NUM_ENVS, 2)
        twin.async_reset(seed=list(pool.np_random_seed))
        assert_same(begun, _take_all(twin))
        return "reset"
    return "goes on"


def _take_all(pool: Any) -> dict[int, Any]:
    """Return the first observation of each environment."""
    answers = (pool.recv() for _ in range(NUM_ENVS // 2))
    return {
        int(env): obs.tolist()
        for returned in answers
        for env, obs in zip(returned[-1]["env_id"], returned[0], strict=True)
    }
