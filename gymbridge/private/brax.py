"""The one import of Brax's environments, and its private names, as of brax 0.14.2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gymbridge.private.notices import quiet

__all__ = ["brax_envs", "registered", "starting_at"]

with quiet():
    from brax import envs as brax_envs


def registered() -> dict[str, Any]:
    """Return Brax's environment classes by name: `brax.envs._envs`."""
    return getattr(brax_envs, "_envs", {})


@contextmanager
def starting_at(env: Any, place: Callable[[Any, Any], tuple[Any, Any]]) -> Iterator[None]:
    """Let an environment begin its simulation at other positions and velocities inside the block.

    Args:
        env: The unwrapped environment. Without `pipeline_init` nothing is changed.
        place: Function from the positions and velocities of `pipeline_init` to those that it gets.
    """
    own = getattr(env, "pipeline_init", None)
    if own is None:
        yield
        return

    def begin(q: Any, qd: Any, *args: Any, **kwargs: Any) -> Any:
        return own(*place(q, qd), *args, **kwargs)

    env.pipeline_init = begin
    try:
        yield
    finally:
        del env.pipeline_init
