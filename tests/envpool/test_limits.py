"""Who keeps the time limit, and what an end on the last allowed step is called."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool")

import envpool
import gymnasium as gym
from envpool.registration import registry
from gymnasium.vector import VectorEnv

from gymbridge import EnvPoolVectorEnv
from gymbridge.engines import envpool_id
from gymbridge.envpool.tasks import (
    LIMIT_KEEPERS,
    derives_limit,
    is_newer,
    limit_enforced_by,
    load_tasks,
)
from gymbridge.errors import SimulationError
from tests.support.envpool_runs import make
from tests.support.player import calls, play

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "envpool.md"

BEYOND = 2**30
"""More steps than any run takes."""


def first_ends(envs: VectorEnv, *actions: int) -> list[tuple[int, bool, bool] | None]:
    """Return when and how the first episode of each environment ended, None if it did not.

    The actions are taken in turn.
    """
    ends: list[tuple[int, bool, bool] | None] = [None] * envs.num_envs

    def act(step: int) -> np.ndarray:
        return np.full_like(envs.action_space.sample(), actions[step % len(actions)])

    steps = (call.found for call in calls(envs, 600, seed=0, act=act) if not call.is_reset)
    for step, (_, _, terminated, truncated, _) in enumerate(steps, 1):
        for row in np.flatnonzero(terminated | truncated):
            ends[row] = ends[row] or (step, bool(terminated[row]), bool(truncated[row]))
        if all(ends):
            break
    return ends


TO_THE_GOAL = [2, 2, 1, 2, 2]
"""Actions of MiniGrid's empty room: two steps ahead, a turn, two steps ahead."""


def test_tie__is_truncated_where_the_pool_keeps_the_limit(mode: str) -> None:
    for limit, flags in ((5, (False, True)), (6, (True, False))):
        envs = make("MiniGrid-Empty-5x5-v0", 2, mode, max_episode_steps=limit)
        assert first_ends(envs, *TO_THE_GOAL) == [(5, *flags)] * 2


@pytest.mark.parametrize("task_id", ["Catch-v0", "Maze-v0", "Play2048-v1", "LaneKeeping-v0"])
def test_limit__holds_where_the_pool_ignores_it(task_id: str, mode: str) -> None:
    envs = make(task_id, 3, mode, max_episode_steps=4)
    restarts = 0
    for shown in play(envs, 60):
        assert (shown[-1]["elapsed_step"] <= 4).all()
        restarts += (shown[-1]["elapsed_step"] == 0).sum()
        if len(shown) == 5:
            assert not (shown[2] & shown[3]).any()
    assert restarts > 12


CRASHES = (27, 49) if is_newer(envpool.__version__, "1.2.5") else (29, 29)
"""Steps at which two vehicles of UTurn-v0 crash. They drive differently since EnvPool 1.2.6."""

LIMITS = {
    # task -> its own limit, an action that does not end it, and where two nevertheless end
    "Pendulum-v1": (200, 0, None),
    "MountainCar-v0": (200, 1, None),
    "MiniGrid-Empty-5x5-v0": (100, 0, None),
    "BabyAI-GoToObjS4-v0": (16, 0, None),
    "Sokoban-v0": (120, 0, None),
    "UTurn-v0": (10, 4, CRASHES),
}


@pytest.mark.parametrize("extra", [None, 1, 40, -1])
@pytest.mark.parametrize("task_id", LIMITS)
def test_limit__is_the_tasks_own_or_the_users_or_none(task_id: str, extra: int | None) -> None:
    limit, action, natural = LIMITS[task_id]
    assert load_tasks()[task_id]["max_episode_steps"] == limit
    given = -1 if extra == -1 else extra and limit + extra
    envs = make(task_id, 2, max_episode_steps=given)
    counted = None if given == -1 else given or limit
    assert envs.max_episode_steps == counted
    ends: list[tuple[int, bool, bool] | None] = []
    for crash in natural or (None, None):
        step = min(counted or BEYOND, crash or BEYOND)
        ends.append(None if step == BEYOND else (step, step == crash, step != crash))
    assert first_ends(envs, action) == ends


@pytest.mark.parametrize("limit", [30, None, 150, -1])
def test_limit__where_a_task_ends_by_itself_holds_if_it_is_shorter(limit: int | None) -> None:
    envs = make("LevelBasedForaging-v0", 2, max_episode_steps=limit)
    steps = 30 if limit == 30 else 100
    assert first_ends(envs, 0) == [(steps, False, True)] * 2


@pytest.mark.parametrize(
    ("limit", "reward"),
    [
        *((limit, 1 - 0.9 * 5 / (limit or 100)) for limit in (8, None, 100, 2000)),
        *((limit, 1) for limit in (-1, 2**31 - 1)),
    ],
)
def test_minigrid__pays_by_the_share_of_the_limit(limit: int | None, reward: float) -> None:
    envs = make("MiniGrid-Empty-5x5-v0", 2, max_episode_steps=limit)
    envs.reset(seed=0)
    for action in TO_THE_GOAL:
        _, rewards, terminated, _, _ = envs.step(np.full(2, action))
    assert terminated.all()
    np.testing.assert_allclose(rewards, reward, atol=1e-6)


LEVEL = "BabyAI-FindObjS5-v0"


@pytest.mark.parametrize(
    ("kwargs", "limit", "end"),
    [
        ({}, 500, 500),
        ({"num_threads": 1}, 500, 500),
        ({"room_size": 6}, None, 720),
        ({"room_size": 6, "max_episode_steps": 600}, 600, 600),
    ],
    ids=repr,
)
def test_babyai__has_the_limit_of_its_rooms_by_every_route(
    kwargs: dict[str, Any], limit: int | None, end: int
) -> None:
    """It is 20 steps for each place of a room."""
    env_id = f"EnvPool/{LEVEL}"
    batches = [EnvPoolVectorEnv(LEVEL, 1, **kwargs), gym.make_vec(env_id, 1, **kwargs)]
    batches.append(gym.make_vec(batches[-1].spec))
    batches.append(gym.make_vec(env_id, 1, vectorization_mode="sync", **kwargs))
    for envs in batches:
        assert getattr(envs, "max_episode_steps", limit) == limit
        envs.reset(seed=0)
        flags = [envs.step(np.zeros(1, int))[2:4] for _ in range(end)]
        ends = [step for step, pair in enumerate(flags, 1) if any(pair)]
        assert ends == [end]
        assert flags[-1] == (False, True)
    assert batches[1].spec.max_episode_steps == limit
    assert gym.make(env_id, **kwargs).spec.max_episode_steps == limit


def test_limits_of_ids__are_none_where_the_pool_computes_them() -> None:
    zero = {
        name for name, (*_, given) in registry.specs.items() if given.get("max_episode_steps") == 0
    }
    assert {name for name in load_tasks() if derives_limit(name)} == zero
    assert {gym.spec(envpool_id(name)).max_episode_steps for name in zero} == {None}


@pytest.mark.parametrize("frame_skip", [1, 4, 35])
def test_vizdoom__timeout_fits_into_an_int32(frame_skip: int) -> None:
    (config,) = make("D1Basic-v1", 1, frame_skip=frame_skip).get_attr("config")
    assert 10**6 < (config.max_episode_steps + 1) * frame_skip < 2**31


def test_docs__name_every_keeper_and_no_other() -> None:
    tasks = load_tasks()
    names = {task["family"].split(".")[-1] for task in tasks.values()} | {*tasks}
    shown: set[tuple[str, str]] = set()
    rows = re.findall(r"^\|(.+)\|(.+)\|(.+)\|(.+)\|$", PAGE.read_text(), re.MULTILINE)
    table = [[cell.strip() for cell in row] for row in rows[2:]]
    for keeper, cell, _, tie in table:
        shown.update((keeper, word) for word in re.findall(r"[\w/-]+", cell) if word in names)
        assert tie.startswith("truncated" if keeper == "pool" else "terminated")
    with_keywords = {("core", "highway"), ("core", "vizdoom")}
    assert shown == with_keywords | {(keeper, name) for name, keeper in LIMIT_KEEPERS.items()}
    assert table[0][:2] == ["core", "all that are not named below"]


def test_keepers__name_families_and_tasks_that_exist_and_aliases_share_them() -> None:
    tasks = load_tasks()
    assert {*LIMIT_KEEPERS} <= {task["family"] for task in tasks.values()} | {*tasks}
    for task_id, task in tasks.items():
        bare = task_id.split("/")[-1]
        if bare in tasks and tasks[bare]["family"] == task["family"]:
            assert limit_enforced_by(bare, task["family"]) == limit_enforced_by(
                task_id, task["family"]
            )


def test_vizdoom__makes_its_folder_when_the_pool_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    envs, built = make("D1Basic-v1", 2), []
    assert list(tmp_path.iterdir()) == []

    def build(*args: Any, **kwargs: Any) -> None:
        built.extend(tmp_path.iterdir())
        raise RuntimeError("enough")

    monkeypatch.setattr(envpool, "make_gymnasium", build)
    with pytest.raises(SimulationError, match="enough"):
        envs.reset()
    assert [path.name for path in built] == ["_vizdoom"]
