"""The tasks of an installed EnvPool that is newer than the shipped list.

Importing EnvPool takes two seconds, and `import gymbridge` imports no engine. Another process reads
EnvPool's registry, once for each version, and leaves the list in the user's cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["list_tasks"]

_SECONDS = 60
"""Seconds after which reading the registry has failed."""

_READ = """
import json, sys
from envpool.registration import registry
tasks = {}
for task_id, (package, _, options) in registry.specs.items():
    limit = options.get("max_episode_steps", 0)
    tasks[task_id] = {
        "family": package.removeprefix("envpool."),
        "max_episode_steps": limit if 0 < limit < 2**31 - 1 else None,
        "max_num_players": options.get("max_num_players", 1),
        "since": sys.argv[1],
    }
with open(sys.argv[2], "w", encoding="utf-8") as file:
    json.dump(tasks, file)
"""


def list_tasks(version: str) -> dict[str, Any]:
    """Return the facts about the tasks of the installed EnvPool, a `Task` each by task id.

    If they can be neither read nor kept in the cache, there are none: their ids are not registered
    then, and `EnvPoolVectorEnv` still builds them.
    """
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gymbridge")
        path = folder / f"envpool-{version}.json"
        if not path.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            _write_tasks(version, path)
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError):  # also without a home
        return {}


def _write_tasks(version: str, path: Path) -> None:
    """Write the file at once, since several processes may do it at the same time."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        part = Path(folder, path.name)
        command = [sys.executable, "-c", _READ, version, str(part)]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS)
        part.replace(path)
