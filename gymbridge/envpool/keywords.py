"""Which keywords an EnvPool task takes, and which of their values would end the process.

EnvPool itself checks few values. This module checks what is known before a pool is built;
docs/reference/envpool.md says what is not checked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import envpool
from envpool.registration import registry

from gymbridge.core.requests import read_count
from gymbridge.envpool.pool import name_task, task_family
from gymbridge.envpool.tasks import is_newer, load_tasks
from gymbridge.errors import (
    ArgumentError,
    ArgumentTypeError,
    UnknownTaskError,
    nearest,
    unexpected_keyword,
)

__all__ = ["read_config", "read_task"]

_BY_TASK = "each task has its own number of players; choose it by the task and leave this out"

_OWNED = {
    "differentiable": "EnvPool's environments have no gradients; use an environment of Brax",
    "residuals": "EnvPool's environments have no gradients; use an environment of Brax",
    "batch_size": "to receive a part of the pool at a time, use gymbridge.envpool.AsyncEnvPool",
    "duration": "use `max_episode_steps`",  # of the highway tasks
    "env_seed": "give seeds to `reset(seed=...)` or `async_reset(seed=...)`",
    "env_type": "it is always 'gymnasium'; leave it out",
    "gym_reset_return_info": "infos are always returned; leave it out",
    "max_num_players": _BY_TASK,
    "n_agents": _BY_TASK,  # of MarlGrid, whose pool ends the process; `team_size` is of soccer
    "team_size": _BY_TASK,
    "render_mode": "only EnvPoolVectorEnv draws frames; leave it out",
    "seed": "give seeds to `reset(seed=...)` or `async_reset(seed=...)`",
    "action_repeat": "EnvPool's own keyword for it is `frame_skip`",
}

_MAKE_KEYWORDS = {"from_pixels", "render_width", "render_height", "render_camera_id"}
"""Keywords that `envpool.make` takes beside the task's own configuration."""

_LEAST_VALUES = {
    "agent_view_size": 1,
    "frame_skip": 1,
    "frame_stack": 1,
    "img_height": 1,
    "img_width": 1,
    "noop_max": 1,
    "num_threads": 0,  # EnvPool's default
    "stack_num": 1,
}
"""Least values of keywords, whatever the task."""

_LEAST_VALUES_OF_SPEC = {
    "CatchEnvSpec": {"height": 2, "width": 1},
    "MiniGridEnvSpec": {"size": 3},
}
"""Least values by EnvPool's spec class. Some MiniGrid tasks need more, which is not checked."""

_MOST_THREADS = 1024
"""EnvPool ends the process when it cannot start its threads."""

_FROZEN_LAKE_SIZES = (4, 8)
"""Other sizes have no map; EnvPool reads beyond the end of one (toy_text/frozen_lake.h)."""


def read_task(task_id: Any) -> str:
    """Return the family of a task; raise unless the installed EnvPool has it."""
    if not isinstance(task_id, str):
        raise ArgumentTypeError(
            f"`task_id` must be the name of an EnvPool task, got {type(task_id).__name__}."
        )
    known = envpool.list_all_envs()
    if task_id not in known:
        since = load_tasks().get(task_id, {}).get("since")
        hint = (
            f"envpool {since} is the first that has it. Install it with `pip install "
            f"'envpool>={since}'`, which needs Python 3.12."
            if since is not None and is_newer(since, envpool.__version__)
            else nearest(task_id, known)
        )
        raise UnknownTaskError(
            f"`task_id` must be a task of the installed envpool {envpool.__version__}, got "
            f"{task_id!r}; {hint}"
        )
    return task_family(task_id)


def read_config(task_id: str, kwargs: dict[str, Any], owner: str) -> dict[str, Any]:
    """Check the user's keywords for `owner`, a class, and return a task's default configuration."""
    with name_task("describe", task_id):
        config = envpool.make_spec(task_id).config._asdict()
    known = (config.keys() - _OWNED.keys()) | _MAKE_KEYWORDS
    for name in kwargs:
        if name not in known:
            own = {"autoreset_mode", "info_keys", "max_episode_steps"}
            hint = _OWNED.get(name) or nearest(name, known | own)
            raise unexpected_keyword(owner, name, repr(task_id), hint)
    _check_values(task_id, config, kwargs)
    return config


def _check_values(task_id: str, config: dict[str, Any], kwargs: dict[str, Any]) -> None:
    """Raise for values with which EnvPool would end the process."""
    spec = registry.specs[task_id][1]
    least = _LEAST_VALUES | _LEAST_VALUES_OF_SPEC.get(spec, {})
    for name in kwargs.keys() & least.keys():
        read_count(name, kwargs[name], least[name])
    if kwargs.get("num_threads", 0) > _MOST_THREADS:
        raise ArgumentError(
            f"`num_threads` must be at most {_MOST_THREADS}, got {kwargs['num_threads']}."
        )
    if spec == "FrozenLakeEnvSpec" and "size" in kwargs:
        size = read_count("size", kwargs["size"])
        if size not in _FROZEN_LAKE_SIZES:
            raise ArgumentError(
                f"`size` must be one of {_FROZEN_LAKE_SIZES} for {task_id!r}, got {size}."
            )
    if spec == "MiniGridEnvSpec" and "env_name" in kwargs:
        _check_env_name(kwargs["env_name"])
    if spec == "AtariEnvSpec" and kwargs.keys() & {"task", "base_path"}:
        task, base_path = (kwargs.get(name, config[name]) for name in ("task", "base_path"))
        rom = Path(str(base_path), "atari", "roms", f"{task}.bin")
        if not rom.is_file():
            raise ArgumentError(
                f"`task` and `base_path` must name an Atari ROM that exists, got {task!r} and "
                f"{str(base_path)!r}: there is no file {rom}."
            )


def _check_env_name(env_name: Any) -> None:
    minigrid = [options for package, _, options in registry.specs.values() if "minigrid" in package]
    known = {options["env_name"] for options in minigrid}
    if not isinstance(env_name, str) or env_name not in known:
        raise ArgumentError(
            f"`env_name` must be one of EnvPool's MiniGrid environments, got {env_name!r}; "
            f"{nearest(str(env_name), known)}"
        )
