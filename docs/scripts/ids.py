"""Write the page of all ids by family, with their spaces and time limits.

It becomes `docs/reference/ids.md`::

    python docs/scripts/ids.py

It needs Brax, EnvPool and Playground. Robots of Playground whose meshes are missing have no spaces
in the table.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import gymnasium as gym
from gymnasium import spaces

from gymbridge.envpool.tasks import load_tasks
from gymbridge.errors import GymbridgeError
from gymbridge.registration import ENGINES

PAGE = Path(__file__).parents[1] / "reference" / "ids.md"

HEAD = """# All ids

Written by `python docs/scripts/ids.py` for Brax {brax}, Playground {playground} and EnvPool
{envpool}. An id works in `gym.make_vec(id, num_envs)` and in `gym.make(id)`. The limit is the
task's own, in steps; `max_episode_steps=` overrides it. A space is that of one environment with the
task's default keywords: `(4,) float32` is a `Box`, `2` a `Discrete`. Where it is not listed, read
`envs.single_observation_space` and `envs.single_action_space`. [](brax.md) and [](envpool.md) say
which tasks cannot be built.
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


def row(env_id: str, limit: int | None, *, has_spaces: bool) -> str:
    """Return the row of an id."""
    if not has_spaces:
        return f"| `{env_id}` | | | {limit or 'none'} |"
    print(env_id, file=sys.stderr)
    spec = gym.spec(env_id)
    try:
        envs = gym.make_vec(spec, num_envs=1)
        observation, action = envs.single_observation_space, envs.single_action_space
        cells = f"{describe(observation)} | {describe(action)}"
        envs.close()
    except GymbridgeError as error:
        cells = f"{_reason(str(error))} | "
    return f"| `{env_id}` | {cells} | {limit or 'none'} |"


def _reason(error: str) -> str:
    """Return why the spaces of a task are not known here."""
    reasons = {"Qt": "needs Qt 5", "menagerie": "needs meshes", "scenarios": "needs keywords"}
    return next((reason for word, reason in reasons.items() if word in error), "cannot be built")


def section(title: str, rows: list[str]) -> str:
    """Return a table under its heading."""
    head = "| id | observations | actions | limit |\n|---|---|---|---:|"
    return f"## {title}\n\n{head}\n" + "\n".join(rows) + "\n"


def families() -> dict[str, list[tuple[str, int | None]]]:
    """Return ids and limits by family."""
    found: dict[str, list[tuple[str, int | None]]] = {}
    for namespace, engine in ENGINES.items():
        for env_id, kwargs, limit in engine.ids():
            family = load_tasks()[kwargs["task_id"]]["family"] if "task_id" in kwargs else ""
            title = f"{namespace}: {family}" if family else namespace
            found.setdefault(title, []).append((env_id, limit))
    return found


def main() -> None:
    """Write the page, family by family."""
    parser = argparse.ArgumentParser(description=__doc__)
    text = "family whose spaces are left out, such as Playground, whose tasks take long to build"
    parser.add_argument("--no-spaces", action="append", default=[], metavar="FAMILY", help=text)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    versions = {name: version(name) for name in ("brax", "playground", "envpool")}
    PAGE.write_text(HEAD.format(**versions), encoding="utf-8")
    for title, members in families().items():
        rows = [
            row(env_id, limit, has_spaces=title not in given.no_spaces) for env_id, limit in members
        ]
        with PAGE.open("a", encoding="utf-8") as page:
            page.write("\n" + section(title, rows))


if __name__ == "__main__":
    main()
