"""Checks of a task of any family; ``python envpool_family.py <task id>`` makes all of them.

Some engines crash where another has run before, write into the working directory, or leave child
processes behind: each runs alone.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from envpool_oracle import CASES, check_against_own_pools
from envpool_runs import (
    MODES,
    act_all,
    as_ints,
    check_results,
    collect_episodes,
    make,
    make_own,
    make_plain,
    play,
)
from episode_runs import row_of
from gymnasium.vector import VectorEnv
from trees import assert_same, walk_infos

from gymbridge.envpool.tasks import load_tasks

__all__ = ["RULES"]

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

MASK = np.array([True, False, True])

COUNTED_HERE_ONLY = ("gfootball", "highway", "jumanji", "pgx", "procgen")
"""Families whose pools ignore `max_episode_steps`, or count it in another way."""


def main(task_id: str) -> None:
    """Check the task in every mode, and print the steps compared with EnvPool's own pools."""
    warnings.simplefilter("error")
    if any(task_id in task_ids for task_ids in RULES.values()):
        check_rules(task_id)
    print(check_against_own_pools(task_id) if task_id in CASES else 0)


def check_rules(task_id: str) -> None:
    """Check episodes, results, partial resets and the plain rule."""
    stories = []
    for mode in MODES:
        envs = make(task_id, NUM_ENVS, mode, max_episode_steps=LIMIT)
        stories.append(collect_episodes(envs, 2, seed=SEED))
        check_results(envs, play(envs, LIMIT + 3, seed=None))
        check_partial_reset(envs)
    assert_same(stories[1], stories[0])
    assert_same(stories[2], stories[0])
    log = play(envs, 2 * LIMIT + 3, seed=SEED)
    envs.close()
    plain = make_plain(task_id, NUM_ENVS, "NextStep", max_episode_steps=LIMIT)
    assert_same(play(plain, 2 * LIMIT + 3, seed=SEED), log)
    plain.close()
    if load_tasks()[task_id]["family"] not in COUNTED_HERE_ONLY:
        check_against_own_pool(task_id, envs, log)


def check_against_own_pool(task_id: str, envs: VectorEnv, log: list[Any]) -> None:
    """Check that a pool with that limit, which restarts rows by itself, returns the same run."""
    pool = make_own(task_id, num_envs=NUM_ENVS, seed=SEED, max_episode_steps=LIMIT)
    assert_same(as_ints(log[0][0]), as_ints(pool.reset()[0]))
    began = np.zeros(NUM_ENVS, np.bool_)
    for step, (obs, rewards, terminated, truncated, _) in enumerate(log[1:]):
        own = pool.step(act_all(envs, 0, step))
        over = terminated | truncated
        assert_same(as_ints(obs), as_ints(own[0]))
        np.testing.assert_array_equal(rewards, np.where(began, 0, own[1]))
        np.testing.assert_array_equal(over, own[2] | own[3])
        began = over


def check_partial_reset(envs: VectorEnv) -> None:
    """Check that it touches the rows under the mask alone, which count anew."""
    for _ in range(30):
        envs.reset()
        before, _, terminated, truncated, _ = envs.step(act_all(envs, 0, 0))
        if not (terminated | truncated).any():
            break
    else:
        raise AssertionError("some row ended in each of 30 first steps")
    obs, infos = envs.reset(options={"reset_mask": MASK})
    assert envs.observation_space.contains(obs)
    assert_same(row_of(obs, 1), row_of(before, 1))
    for _, _, mask in walk_infos(infos):
        np.testing.assert_array_equal(mask, MASK)
    *_, infos = envs.step(act_all(envs, 0, 1))
    np.testing.assert_array_equal(infos["elapsed_step"], np.where(MASK, 1, 2))


if __name__ == "__main__":
    main(sys.argv[1])
