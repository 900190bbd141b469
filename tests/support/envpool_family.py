"""Checks of a task of any family, which `run` makes in a process of their own.

Some engines crash where another has run before, write into the working directory, or leave child
processes behind.
"""

from __future__ import annotations

import os
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.envpool_oracle import CASES, check_against_own_pools
from tests.support.envpool_runs import (
    MODES,
    act_all,
    check_results,
    make,
    make_plain,
)
from tests.support.episode_runs import episodes
from tests.support.player import play
from tests.support.trees import assert_same, scribble

RULES = {
    "atari": ["Freeway-v5"],
    "box2d": ["LunarLander-v3"],
    "classic_control": ["CartPole-v1"],
    "gfootball": ["gfootball/academy_empty_goal_close-v1"],
    "highway": ["UTurn-v0", "ParkingActionRepeat-v0"],
    "jumanji": ["RubiksCube-partly-scrambled-v0"],
    "minigrid": ["BabyAI-GoToObjS4-v0"],
    "mujoco.dmc": ["CheetahRun-v1"],
    "mujoco.gym": ["Hopper-v5"],
    "mujoco.metaworld": ["MetaWorld/Reach-v3"],
    "mujoco.myosuite": ["motorFingerReachFixed-v0"],
    "mujoco.playground": ["PandaOpenCabinet-v1", "Go1JoystickFlatTerrain-v1"],
    "mujoco.robotics": ["PointMaze_UMaze-v3"],
    "pgx": ["Play2048-v1"],
    "procgen": ["MazeEasy-v0"],
    "toy_text": ["FrozenLake-v1"],
    "vizdoom": ["D1Basic-v1"],
}
"""Tasks of each family of which every rule is checked."""

NUM_ENVS, LIMIT, SEED = 3, 8, 11


def write(call: Any) -> None:
    """Write into all that a call returned, which is the caller's own."""
    scribble(call[0])


def run(task_id: str, log: Path) -> None:
    """Check the task in every mode, and print the steps compared with EnvPool's own pools.

    This process leads a group of its own, works in the folder of the log, and prints there: to a
    file and not to a pipe, which children that a crash leaves behind would hold open.
    """
    os.setsid()
    os.chdir(log.parent)
    with log.open("w") as output:
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
    warnings.simplefilter("error")
    if any(task_id in task_ids for task_ids in RULES.values()):
        check_rules(task_id)
    print(check_against_own_pools(task_id) if task_id in CASES else 0, flush=True)


def check_rules(task_id: str) -> None:
    """Check episodes, results and the plain rule; the oracle has each family's own pools."""
    stories = []
    for mode in MODES:
        envs = make(task_id, NUM_ENVS, mode, max_episode_steps=LIMIT)
        stories.append(episodes(envs, 2000, SEED, act=partial(act_all, envs), complete=2))
        act = partial(act_all, envs, 0)
        check_results(envs, play(envs, LIMIT + 3, seed=None, act=act, touch=write))
    assert_same(stories[1], stories[0])
    assert_same(stories[2], stories[0])
    log = play(envs, 2 * LIMIT + 3, seed=SEED, act=act)
    envs.close()
    plain = make_plain(task_id, NUM_ENVS, "NextStep", max_episode_steps=LIMIT)
    assert_same(play(plain, 2 * LIMIT + 3, seed=SEED, act=act), log)
    plain.close()
