"""Facts about EnvPool's tasks, shipped as data so that reading them imports no engine.

`envpool_tasks.json` beside this module holds for each task id the package it comes from, the steps
after which a pool with default options truncates, and the number of players. With EnvPool
installed, ``python -m gymbridge.backends.envpool_tasks`` writes it anew.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict

__all__ = ["Task", "generate", "load_tasks", "main"]

_DATA = Path(__file__).with_name("envpool_tasks.json")

_NO_LIMIT = 2**31 - 1
"""EnvPool's default for `max_episode_steps`."""

_TRUNCATING_JUMANJI = ("LevelBasedForaging", "Sokoban")
"""The Jumanji tasks with a time limit.

The others register a number, but where they have a horizon, reaching it terminates:
`CurrentMaxEpisodeSteps` is one step beyond it (envpool/jumanji), and Game2048 and Minesweeper end
by their own rules alone.
"""

_UNENDING_HIGHWAY = ("LaneKeeping-v0", "lane-keeping-v0")
"""Their step sets `done` to False always (envpool/highway/native_task_env.h)."""


class Task(TypedDict):
    """What is known about a task before its engine is imported.

    Attributes:
        family: Package below ``envpool`` that holds the task, such as ``atari`` or ``mujoco.gym``.
        max_episode_steps: Steps after which a pool with default options truncates; None if it
            never does, or if every episode draws its own number (nine of the BabyAI levels).
        max_num_players: 1, or how many players share an environment.
    """

    family: str
    max_episode_steps: int | None
    max_num_players: int


@functools.cache
def load_tasks() -> Mapping[str, Task]:
    """Return the facts about every EnvPool task by task id, sorted.

    Example:
        >>> load_tasks()["CartPole-v1"]
        {'family': 'classic_control', 'max_episode_steps': 500, 'max_num_players': 1}
    """
    return MappingProxyType(json.loads(_DATA.read_text(encoding="utf-8"))["tasks"])


def generate() -> str:
    """Return the text of `envpool_tasks.json` for the installed EnvPool, one task a line."""
    import envpool
    from envpool.registration import registry

    lines = []
    for task_id in sorted(registry.specs):
        package, _, options = registry.specs[task_id]
        task = _describe(task_id, package.removeprefix("envpool."), options)
        lines.append(f"{json.dumps(task_id)}: {json.dumps(task)}")
    tasks = ",\n".join(lines)
    return f'{{"envpool": {json.dumps(envpool.__version__)}, "tasks": {{\n{tasks}\n}}}}\n'


def main() -> None:
    """Write `envpool_tasks.json` anew."""
    _DATA.write_text(generate(), encoding="utf-8")


def _describe(task_id: str, family: str, options: Mapping[str, Any]) -> Task:
    limit = options.get("max_episode_steps", _NO_LIMIT)
    return Task(
        family=family,
        max_episode_steps=_steps_before_truncation(task_id, family, limit),
        max_num_players=options.get("max_num_players", 1),
    )


def _steps_before_truncation(task_id: str, family: str, limit: int) -> int | None:
    if limit == _NO_LIMIT or task_id in _UNENDING_HIGHWAY:
        return None
    if family == "jumanji" and not task_id.removeprefix("Jumanji/").startswith(_TRUNCATING_JUMANJI):
        return None
    if family == "minigrid" and limit == 0:
        return _drawn_limit(task_id)
    # The engine of gfootball counts its first state as step -1 (info `steps_left` shows it).
    return limit + 1 if family == "gfootball" else limit


def _drawn_limit(task_id: str) -> int | None:
    """Return the limit that a BabyAI level gives itself, None if its episodes differ.

    A level takes the area of its rooms for each place that its mission sends the agent to
    (envpool/minigrid/impl/babyai_core.cc), so levels with missions of several kinds vary.
    """
    import envpool

    # Few seeds, many episodes: with some others BabyAI-SynthS5R2-v0 never returns from its reset.
    num_envs, num_episodes = 4, 16
    pool: Any = envpool.make_gymnasium(task_id, num_envs=num_envs, seed=0)
    limits = set()
    for _ in range(num_episodes):
        pool.reset()
        limits.update(state.max_steps for state in pool._debug_states(list(range(num_envs))))
    return limits.pop() if len(limits) == 1 else None


if __name__ == "__main__":
    main()
