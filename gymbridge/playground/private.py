"""Uses of private names of Playground, as of playground 0.2.0."""

from __future__ import annotations

from typing import Any

from mujoco_playground import registry

__all__ = ["MENAGERIE", "menagerie_is_missing", "registered"]

MENAGERIE = (
    'python -c "from mujoco_playground._src.mjx_env import ensure_menagerie_exists as e; e()"'
)
"""The command that downloads the meshes as Playground does."""


def registered() -> dict[str, Any]:
    """Return Playground's environment classes by name: the `_envs` of its three suites."""
    suites = (registry.dm_control_suite, registry.locomotion, registry.manipulation)
    return {name: kind for suite in suites for name, kind in getattr(suite, "_envs", {}).items()}


def menagerie_is_missing() -> bool:
    """Return whether Playground would download meshes when it loads a robot.

    Where a version of Playground lacks the name, the answer is False, and Playground downloads.
    """
    path = getattr(getattr(registry, "mjx_env", None), "MENAGERIE_PATH", None)
    return path is not None and not path.exists()
