"""The one import of Brax's environments, and its private names, as of brax 0.14.2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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

    `place` replaces those that `pipeline_init` gets. Nothing changes if the unwrapped environment
    has no such method, calls it with keywords, or is frozen.
    """
    own: Any = getattr(env, "pipeline_init", None)
    is_set = "pipeline_init" in vars(env)

    def begin(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 1:
            args = (*place(*args[:2]), *args[2:])
        return own(*args, **kwargs)

    with suppress(AttributeError):  # A frozen environment raises it.
        if own is not None:
            env.pipeline_init = begin
    try:
        yield
    finally:
        if is_set:
            env.pipeline_init = own
        else:
            vars(env).pop("pipeline_init", None)
