"""EnvPool's private names, read in 1.2.5 to 1.2.7: exchanges without what its own `step` adds."""

from __future__ import annotations

from typing import Any, NamedTuple

import envpool
import numpy as np

from gymbridge.errors import SimulationError

__all__ = ["Exchange", "SpecWithoutWarnings", "action_keys", "make_exchange", "state_keys"]


class Exchange(NamedTuple):
    """The calls that move a pool's environments; see envpool/core/async_envpool.h."""

    send: Any  # [(count,) int32 ids, the same, *actions by leaf] -> None
    receive: Any  # () -> answers, one array per key
    reset: Any  # (count,) int32 ids -> None
    render: Any  # (count,) int32 ids, width, height, camera -> (count, height, width, 3) uint8


def make_exchange(pool: Any) -> Exchange:
    """Return the calls of a pool."""
    return Exchange(*(_get(pool, name) for name in ("_send", "_recv", "_reset", "_render")))


def state_keys(spec: Any) -> list[str]:
    """Return the keys of a pool's answers, in their order."""
    return list(_get(spec, "_state_keys"))


def action_keys(spec: Any) -> list[str]:
    """Return the keys of a pool's actions, in their order."""
    return list(_get(spec, "_action_keys"))


class SpecWithoutWarnings:
    """A spec whose spaces are the same and are made in silence.

    EnvPool has some bounds of 32-bit floats in 64 bits, and `Box` warns of the difference. So the
    spec's own properties get bounds that have the dtypes of the arrays.
    """

    def __init__(self, spec: Any) -> None:
        self._spec, kind = spec, type(spec)
        self.state_array_spec = _cast_bounds(spec.state_array_spec)
        self.action_array_spec = _cast_bounds(spec.action_array_spec)
        self.gymnasium_observation_space = kind.observation_space.fget(self)
        self.gymnasium_action_space = kind.action_space.fget(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spec, name)


def _cast_bounds(specs: dict[str, Any]) -> dict[str, Any]:
    for spec in specs.values():
        for name in ("minimum", "maximum"):
            bound = getattr(spec, name)
            if (
                isinstance(bound, np.ndarray)
                and bound.dtype.kind == np.dtype(spec.dtype).kind == "f"
            ):
                setattr(spec, name, bound.astype(spec.dtype))
    return specs


def _get(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError as error:
        raise SimulationError(
            f"envpool {envpool.__version__} has no `{name}`, which this version of gymbridge "
            "needs. Install one from 1.2.5 to 1.2.7."
        ) from error
