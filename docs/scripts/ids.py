"""Write the page of all ids by family, with their spaces and time limits.

It becomes `docs/reference/ids.md`::

    python docs/scripts/ids.py

It needs Brax, EnvPool and Playground. Robots of Playground whose meshes are missing have no spaces
in the table.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

from gymnasium import spaces
from gymnasium.vector import VectorEnv

from gymbridge import BraxVectorEnv, EnvPoolVectorEnv, PlaygroundVectorEnv
from gymbridge.brax.tasks import BRAX_LIMIT, BRAX_NAMES
from gymbridge.envpool.tasks import load_tasks
from gymbridge.errors import GymbridgeError
from gymbridge.playground.tasks import PLAYGROUND_LIMITS
from gymbridge.registration import brax_id, envpool_id, playground_id

PAGE = Path(__file__).parents[1] / "reference" / "ids.md"

HEAD = """# All ids

Written by `python docs/scripts/ids.py` for Brax {brax}, Playground {playground} and EnvPool
{envpool}. Every id works in `gym.make_vec(id, num_envs)` and in `gym.make(id)`. The limit is the
task's own, in steps; `max_episode_steps=` overrides it. A space is that of one environment with the
task's default keywords: `(4,) float32` is a `Box`, `2` a `Discrete`.
"""


def describe(space: spaces.Space) -> str:
    """Return a space in a few characters."""
    if isinstance(space, spaces.Discrete):
        return str(space.n)
    if isinstance(space, spaces.Dict):
        parts = [f"{name}: {describe(part)}" for name, part in space.spaces.items()]
        listed = ", ".join(parts[:3])
        return f"Dict of {len(parts)}" if len(listed) > 90 or len(parts) > 3 else listed
    shape = f"({', '.join(map(str, space.shape))}{',' * (len(space.shape) == 1)})"
    kind = "" if isinstance(space, spaces.Box) else f"{type(space).__name__} "
    return f"{kind}{shape} {space.dtype}"


def row(env_id: str, make: Callable[[], VectorEnv], limit: int | None) -> str:
    """Return the row of an id."""
    try:
        envs = make()
        observation, action = envs.single_observation_space, envs.single_action_space
        cells = f"{describe(observation)} | {describe(action)}"
        envs.close()
    except GymbridgeError as error:
        cells = "meshes are missing | " if "menagerie" in str(error) else "cannot be built | "
    return f"| `{env_id}` | {cells} | {limit if limit else 'none'} |"


def section(title: str, rows: list[str]) -> str:
    """Return a table under its heading."""
    head = "| id | observations | actions | limit |\n|---|---|---|---:|"
    return f"## {title}\n\n{head}\n" + "\n".join(rows) + "\n"


def sections() -> Iterator[str]:
    """Yield a table for each family."""
    rows = [
        row(brax_id(name), lambda name=name: BraxVectorEnv(name, 1), BRAX_LIMIT)
        for name in BRAX_NAMES
    ]
    yield section("Brax", rows)
    rows = [
        row(playground_id(name), lambda name=name: PlaygroundVectorEnv(name, 1), limit)
        for name, limit in PLAYGROUND_LIMITS.items()
    ]
    yield section("Playground", rows)
    tasks = [(name, task) for name, task in load_tasks().items() if task["max_num_players"] == 1]
    tasks.sort(key=lambda item: (item[1]["family"], item[0]))
    for family, members in groupby(tasks, key=lambda item: item[1]["family"]):
        rows = [
            row(
                envpool_id(name),
                lambda name=name: EnvPoolVectorEnv(name, 1),
                task["max_episode_steps"],
            )
            for name, task in members
        ]
        yield section(f"EnvPool: {family}", rows)


def main() -> None:
    """Write the page."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    versions = {name: version(name) for name in ("brax", "playground", "envpool")}
    PAGE.write_text("\n".join([HEAD.format(**versions), *sections()]), encoding="utf-8")


if __name__ == "__main__":
    main()
