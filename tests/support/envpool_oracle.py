"""A batch against one of EnvPool's own pools per environment.

The pools are driven as docs/reference/envpool.md says, without anything of gymbridge.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tests.support.envpool_runs import MODES, act_all, make, make_own
from tests.support.oracle import Answer, Oracle, Row, check_run

SEEDS = [907, 2**31 - 1, 11, 4]
"""In no order, so that a batch has to be given a list; with EnvPool's largest."""

LIMITS = (1, 2, 3, 7, None, -1)

NUM_STEPS = 120

BEYOND, NONE = 10**7, 2**31 - 2
"""A limit that no run here reaches, and the largest to which a pool can add one."""


class Case(NamedTuple):
    """A task, and how long it is played."""

    family: str
    task_limit: int | None  # the task's own
    sees: str = ""  # beside truncations: "terminated", "tie", "own limit"
    free_steps: int = NUM_STEPS  # in place of `NUM_STEPS`, without a limit and with the task's own
    is_costly: bool = False  # fewer environments, and each limit in one mode only
    keywords: tuple[tuple[str, Any], ...] = ()

    @property
    def runs(self) -> list[tuple[str, int | None]]:
        """Modes and limits."""
        if not self.is_costly:
            return list(product(MODES, LIMITS))
        runs = [(MODES[index % 3], limit) for index, limit in enumerate(LIMITS)]
        # The long ones are in two modes; where episodes end by themselves, they have to in three.
        return [*runs, (MODES[0], -1)] if "terminated" in self.sees else runs

    @property
    def steps(self) -> int:
        """The least steps of environments that are compared in all runs."""
        return sum(self.steps_under(limit) for _, limit in self.runs)

    def steps_under(self, limit: int | None) -> int:
        """Return the least steps of environments that are compared in a run."""
        return self.free_steps if limit in (None, -1) else NUM_STEPS


CASES = {
    "AlohaHandOver-v1": Case("mujoco.playground", 250, is_costly=True),
    "BabyAI-GoToObjS4-v0": Case("minigrid", 16, "terminated, own limit", 300),
    "Blackjack-v1": Case("toy_text", None, "terminated, tie"),
    "Breakout-v5": Case(
        "atari", 27000, "terminated", 1200, is_costly=True, keywords=(("episodic_life", True),)
    ),
    "CartPole-v1": Case("classic_control", 500, "terminated", 400),
    "CartpoleBalance-v1": Case("mujoco.dmc", 1000, is_costly=True),
    "D1Basic-v1": Case("vizdoom", 525, "terminated", 1000, is_costly=True),
    "FrozenLake-v1": Case("toy_text", 100, "terminated, tie"),
    "Go1JoystickFlatTerrain-v1": Case("mujoco.playground", 1000, "terminated", 500, is_costly=True),
    "Hopper-v5": Case("mujoco.gym", 1000, "terminated", 300),
    "LevelBasedForaging-v0": Case("jumanji", 100, "own limit", 900),
    "LunarLander-v3": Case("box2d", 1000, "terminated", 900),
    "MazeEasy-v0": Case("procgen", 500, "terminated", 600),
    "MetaWorld/Reach-v3": Case("mujoco.metaworld", 500, is_costly=True),
    "MiniGrid-LavaGapS5-v0": Case("minigrid", 100, "terminated, own limit", 900),
    "ParkingActionRepeat-v0": Case("highway", 20, "terminated, tie, own limit", 300),
    "Pendulum-v1": Case("classic_control", 200, "own limit", 1700),
    "Play2048-v1": Case("pgx", None, "terminated, tie"),
    "PointMaze_UMaze-v3": Case("mujoco.robotics", 300, is_costly=True),
    "Snake-v1": Case("jumanji", None, "terminated, tie"),
    "UTurn-v0": Case("highway", 10, "terminated, tie, own limit", 600),
    "gfootball/academy_empty_goal_close-v1": Case(
        "gfootball", 400, "terminated", 1000, is_costly=True
    ),
    "motorFingerReachFixed-v0": Case("mujoco.myosuite", 200),
}
"""At least one task of every family."""


class OwnPool:
    """One environment in a pool of EnvPool's own.

    The pool restarts what it ended by itself at the next step, whose action it ignores. Everything
    else is reset.
    """

    def __init__(self, task_id: str, seed: int, keywords: dict[str, Any]) -> None:
        self._pool = make_own(task_id, num_envs=1, seed=[seed], **keywords)
        self._last_action: Any = None
        self._ended = False

    def begin(self) -> Answer:
        if self._ended:
            return self._read(*self._pool.step(self._last_action))
        obs, info = self._pool.reset()
        return self._read(obs, [0], [False], [False], info)

    def step(self, action: Any) -> Answer:
        self._last_action = np.asarray(action)[None]
        return self._read(*self._pool.step(self._last_action))

    def _read(self, obs: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Answer:
        self._ended = bool(terminated[0] or truncated[0])
        kept = {key: _first(info[key]) for key in info if key not in ("env_id", "players", "ram")}
        flags = bool(terminated[0]), bool(truncated[0])
        return Answer(_first(obs), float(reward[0]), *flags, kept)


def _first(tree: Any) -> Any:
    """Return the one row, with copies of its arrays."""
    if isinstance(tree, dict):
        return {key: _first(value) for key, value in tree.items()}
    return np.array(tree[0])


def pool_keywords(family: str, task_id: str, limit: int | None) -> dict[str, Any]:
    """Return what the pool gets under a user's limit, by the table in docs/reference/envpool.md."""
    name = task_id.split("/")[-1]
    if family == "procgen" or name == "LevelBasedForaging-v0":
        return {}
    if family == "highway":
        return {"duration": 10**6}
    if family in ("minigrid", "gfootball") or name == "AlohaHandOver-v1":
        if limit is None:
            return {}
        given = NONE if limit == -1 else limit
        return {"max_episode_steps": max(given - (family == "gfootball"), 1)}
    return {"max_episode_steps": BEYOND}


def check_case(task_id: str, mode: str, limit: int | None) -> Oracle:
    """Play the task in one mode and under one limit, and return the oracle."""
    case = CASES[task_id]
    seeds = SEEDS[: 3 if case.is_costly else 4]
    given: Any = seeds
    if limit in (2, 7, -1):  # an int in place of a list
        given, seeds = seeds[0], [seeds[0] + index for index in range(len(seeds))]
    own = dict(case.keywords)
    counted = {None: case.task_limit, -1: None}.get(limit, limit)
    pool = {**pool_keywords(case.family, task_id, limit), **own}
    envs = make(task_id, len(seeds), mode, max_episode_steps=limit, **own)
    oracle = Oracle(envs, [Row(OwnPool(task_id, seed, pool), counted) for seed in seeds])
    check_run(
        oracle,
        case.steps_under(limit),
        seed=given,
        act=partial(act_all, envs, 0),
        draw=[LIMITS.index(limit), MODES.index(mode)],
    )
    envs.close()
    return oracle


def check_against_own_pools(task_id: str) -> int:
    """Play the task in every mode and under every limit; return the steps compared."""
    case = CASES[task_id]
    steps, ends = 0, Counter[str]()
    for mode, limit in case.runs:
        oracle = check_case(task_id, mode, limit)
        steps += oracle.steps
        ends += oracle.ends
        ends["own limit"] += oracle.ends["truncated"] if limit is None else 0
    for end in ("truncated", *filter(None, case.sees.split(", "))):
        assert ends[end], f"no end of the kind {end!r} was seen: {dict(ends)}"
    return steps
