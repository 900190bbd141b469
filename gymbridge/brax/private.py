"""The one import of Brax's environments, and what Brax keeps private, as of brax 0.14.2."""

from __future__ import annotations

from typing import Any

from gymbridge.state_envs.notices import quiet

__all__ = ["brax_envs", "find_own", "registered"]

with quiet():
    from brax import envs as brax_envs


def find_own(name: Any) -> type | None:
    """Return the registered class of that name if it is one of Brax's own; None for others."""
    kind = registered().get(name) if isinstance(name, str) else None
    is_own = isinstance(kind, type) and kind.__module__.partition(".")[0] == "brax"
    return kind if is_own else None


def registered() -> dict[str, Any]:
    """Return Brax's environment classes by name: `brax.envs._envs`."""
    return getattr(brax_envs, "_envs", {})
