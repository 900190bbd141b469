"""At least one task of every family that EnvPool builds, each in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("envpool")

from own_process import run_alone

from gymbridge.envpool.tasks import load_tasks

pytestmark = pytest.mark.slow

TASKS = {
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


def test_families__are_all_tested() -> None:
    tasks = load_tasks()
    assert {*TASKS} == {task["family"] for task in tasks.values() if task["max_num_players"] == 1}
    for family, task_ids in TASKS.items():
        assert {tasks[task_id]["family"] for task_id in task_ids} == {family}


@pytest.mark.parametrize(
    "task_id",
    [
        pytest.param(task_id, marks=[pytest.mark.needs_qt5] if family == "procgen" else [])
        for family, task_ids in TASKS.items()
        for task_id in task_ids
    ],
)
def test_task__keeps_every_rule_in_every_mode(task_id: str, tmp_path: Path) -> None:
    line = run_alone("envpool_family.py", task_id, folder=tmp_path)
    assert line.startswith(f"{task_id}: [[")
