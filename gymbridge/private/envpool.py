"""EnvPool's private names, read in 1.2.5 to 1.2.7: exchanges without what its own `step` adds."""

from __future__ import annotations

from typing import Any, NamedTuple

import envpool
import numpy as np

from gymbridge.errors import SimulationError

__all__ = ["Exchange", "Values", "action_keys", "make_exchange", "state_keys"]

Values = list[np.ndarray]
"""What a pool returns: one array per key, whose first axis is the environments that were asked."""


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


def _get(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError as error:
        raise SimulationError(
            f"envpool {envpool.__version__} has no `{name}`, which this version of gymbridge "
            "needs. Install one from 1.2.5 to 1.2.7."
        ) from error
