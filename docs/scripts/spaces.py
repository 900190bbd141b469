"""Write the names of the spaces that `gymbridge list` shows, for the installed engines.

They become `gymbridge/command_line/spaces.json`, one id a line::

    python docs/scripts/spaces.py

Ids that cannot be built (EnvPool's Procgen needs the system's Qt 5) keep the entry that they have.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import gymnasium as gym
from gymnasium import Space, spaces
from gymnasium.envs.registration import registry

from gymbridge.command_line.batches import make_batch
from gymbridge.command_line.listing import SPACES
from gymbridge.engines import find_engine
from gymbridge.errors import GymbridgeError


def name_space(space: Space[Any]) -> str:
    """Return a short name of a space; that of a `Box` has its lowest and its highest bound."""
    if isinstance(space, spaces.Dict):
        subs = (f"{key}: {name_space(sub)}" for key, sub in space.spaces.items())
        return f"Dict({', '.join(subs)})"
    if isinstance(space, spaces.Box) and 0 in space.shape:
        return f"Box({space.shape}, {space.dtype})"
    if isinstance(space, spaces.Box):
        return f"Box({space.low.min():g}, {space.high.max():g}, {space.shape}, {space.dtype})"
    if isinstance(space, spaces.Discrete):
        return f"Discrete({space.n}{f', start={space.start}' if space.start else ''})"
    return str(space)


def read_spaces(env_id: str) -> list[str]:
    """Build an id's environment, and return the names of its two spaces."""
    envs = make_batch(env_id, num_envs=1)
    names = [name_space(envs.single_observation_space), name_space(envs.single_action_space)]
    envs.close()
    return names


def generate() -> str:
    """Return the text of `spaces.json` for the installed engines."""
    found = json.loads(SPACES.read_text(encoding="utf-8"))
    for env_id in [env_id for env_id in registry if find_engine(env_id) is not None]:
        try:
            found[env_id] = read_spaces(env_id)
        except (GymbridgeError, gym.error.Error) as error:
            print(f"{env_id} keeps {found.get(env_id)}: {error}", file=sys.stderr)
    lines = (f"{json.dumps(env_id)}: {json.dumps(found[env_id])}" for env_id in sorted(found))
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    SPACES.write_text(generate(), encoding="utf-8")
