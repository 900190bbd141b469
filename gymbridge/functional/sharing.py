"""What equal batches share: the environment as it was traced, and the functions compiled for it.

A second batch of the same task, for example for evaluation beside training, traces and compiles
nothing. What is shared is dropped with the last batch that uses it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from enum import Enum
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import jax
import numpy as np

from gymbridge.core.jax_private import trace_settings
from gymbridge.functional.runners import FunctionalRunner
from gymbridge.functional.simulator import FunctionalSimulator

__all__ = ["keep", "make_key", "share"]

_runners: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
_lock = threading.Lock()

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def make_key(task: Any, runner: type[FunctionalRunner], *choices: Any) -> Hashable | None:
    """Return what a batch is built from, as a key; None where a change of it could not be seen.

    Args:
        task: The engine's own class of the environment, or a `functools.partial` of it. None for
            anything else: an object can change unseen, and a user's class may read files or draw
            numbers when it is built, or keep a picture on itself.
        runner: The class of the runner.
        choices: Everything else that tracing reads: numbers, texts, enums, devices, and lists and
            dicts of such. Any other value can change unseen.

    Returns:
        The choices as a hashable value with their types, beside JAX's own settings for traces.
    """
    settings = trace_settings()
    parts = (task.func, task.args, task.keywords) if isinstance(task, partial) else (task,)
    if not isinstance(parts[0], type) or settings is None:
        return None
    try:
        return parts[0], runner, _freeze([*parts[1:], *choices]), settings
    except TypeError:
        return None


def share(
    key: Hashable | None,
    make_simulator: Callable[[], FunctionalSimulator],
    runner: type[FunctionalRunner],
) -> tuple[FunctionalSimulator, type[FunctionalRunner] | FunctionalRunner]:
    """Return the simulator and the runner of an equal batch, or a new one and the runner's class.

    Args:
        key: From `make_key`; None for a batch that shares nothing.
        make_simulator: Function that builds the simulator; called where there is no equal batch.
        runner: The class of the runner.
    """
    with _lock:
        found: FunctionalRunner | None = _runners.get(key)
    return (make_simulator(), runner) if found is None else (found.rule.simulator, found)


def keep(key: Hashable | None, runner: FunctionalRunner) -> None:
    """Remember the runner of a batch that is built, for equal ones to share.

    Args:
        key: From `make_key`; None for a batch that shares nothing.
        runner: What the batch has, whether its own or that of another.
    """
    if key is not None:
        with _lock:
            _runners[key] = runner


def _freeze(value: Any) -> Hashable:
    """Return a value in a form that is hashable and keeps 1, 1.0 and True apart.

    Raises:
        TypeError: The value may change unseen.
    """
    if type(value) in (list, tuple):
        return type(value), tuple(map(_freeze, value))
    if type(value) is dict:
        return dict, tuple((_freeze(key), _freeze(entry)) for key, entry in value.items())
    if isinstance(value, Enum):
        return type(value), value
    if isinstance(value, jax.Device | jax.sharding.NamedSharding):
        return value
    if type(value) in _PLAIN or isinstance(value, np.generic):
        return type(value), repr(value)
    raise TypeError(f"{value!r} may change unseen.")
