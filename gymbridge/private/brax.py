"""The one import of Brax's environments, and what Brax keeps private, as of brax 0.14.2."""

from __future__ import annotations

from typing import Any

from gymbridge.private.notices import quiet

__all__ = ["brax_envs", "registered"]

with quiet():
    from brax import envs as brax_envs


def registered() -> dict[str, Any]:
    """Return Brax's environment classes by name: `brax.envs._envs`."""
    return getattr(brax_envs, "_envs", {})
