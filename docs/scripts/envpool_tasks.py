"""Write what is known about each task of EnvPool, for the newest version that it has run with.

It becomes `gymbridge/envpool/tasks.json`::

    python docs/scripts/envpool_tasks.py

A task that is not in the list yet is new in the installed version. So run it with each version in
turn. With an older version than that of the list, it describes that version's tasks anew and keeps
the newer ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import envpool
from envpool.registration import registry

from gymbridge.envpool.tasks import NO_LIMIT, Task, is_newer

DATA = Path(__file__).parents[2] / "gymbridge" / "envpool" / "tasks.json"

TRUNCATING_JUMANJI = ("LevelBasedForaging", "Sokoban")
"""The Jumanji tasks with a time limit.

The others register a number, but where they have a horizon, reaching it terminates:
`CurrentMaxEpisodeSteps` is one step beyond it (envpool/jumanji), and Game2048 and Minesweeper end
by their own rules alone.
"""

UNENDING_HIGHWAY = ("LaneKeeping-v0", "lane-keeping-v0")
"""Their step sets `done` to False always (envpool/highway/native_task_env.h)."""


def generate() -> str:
    """Return the text of `tasks.json`, one task a line."""
    shipped = json.loads(DATA.read_text(encoding="utf-8"))
    here, listed = envpool.__version__, shipped["envpool"]
    tasks: dict[str, Task] = {
        task_id: task
        for task_id, task in shipped["tasks"].items()
        if is_newer(task.get("since", "0"), here)
    }
    for task_id, (package, _, options) in registry.specs.items():
        tasks[task_id] = describe(task_id, package.removeprefix("envpool."), options)
        since = shipped["tasks"].get(task_id, {"since": here}).get("since")
        if since is not None:
            tasks[task_id]["since"] = since
    facts = (f"{json.dumps(task_id)}: {json.dumps(tasks[task_id])}" for task_id in sorted(tasks))
    lines = ",\n".join(facts)
    newest = json.dumps(here if is_newer(here, listed) else listed)
    return f'{{"envpool": {newest}, "tasks": {{\n{lines}\n}}}}\n'


def describe(task_id: str, family: str, options: Mapping[str, Any]) -> Task:
    limit = options.get("max_episode_steps", NO_LIMIT)
    return Task(
        family=family,
        max_episode_steps=steps_before_truncation(task_id, family, limit),
        max_num_players=count_players(task_id, family, options),
    )


def count_players(task_id: str, family: str, options: Mapping[str, Any]) -> int:
    if family == "mujoco.locomotion":  # whose options do not say it
        spec: Any = envpool.make_spec(task_id)
        return spec.config.max_num_players
    return options.get("max_num_players", 1)


def steps_before_truncation(task_id: str, family: str, limit: int) -> int | None:
    if limit == NO_LIMIT or task_id in UNENDING_HIGHWAY:
        return None
    if family == "jumanji" and not task_id.removeprefix("Jumanji/").startswith(TRUNCATING_JUMANJI):
        return None
    if family == "minigrid" and limit == 0:
        return drawn_limit(task_id)
    # The engine of gfootball counts its first state as step -1 (info `steps_left` shows it).
    return limit + 1 if family == "gfootball" else limit


def drawn_limit(task_id: str) -> int | None:
    """Return the limit that a BabyAI level gives itself, None if its episodes differ.

    A level takes the area of its rooms for each place that its mission sends the agent to
    (envpool/minigrid/impl/babyai_core.cc), so levels with missions of several kinds vary.
    """
    # Few seeds, many episodes: with some others BabyAI-SynthS5R2-v0 never returns from its reset.
    num_envs, num_episodes = 4, 16
    pool: Any = envpool.make_gymnasium(task_id, num_envs=num_envs, seed=0)
    limits = set()
    for _ in range(num_episodes):
        pool.reset()
        limits.update(state.max_steps for state in pool._debug_states([*range(num_envs)]))
    return limits.pop() if len(limits) == 1 else None


if __name__ == "__main__":
    DATA.write_text(generate(), encoding="utf-8")
