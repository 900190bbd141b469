"""Logs what is compiled and how to keep it, on the logger `gymbridge`."""

from __future__ import annotations

import logging
import threading
from typing import Any

import jax

from gymbridge.private.jax import listen_to_compilations

__all__ = ["announce", "log_compilation"]

_LOG = logging.getLogger("gymbridge")

_SLOW = 5.0
"""Seconds of a compilation after which a warning says how to keep what is compiled."""

_SAID = threading.Event()

_announced = threading.local()
"""Its attribute `what` is announced in this thread and not compiled yet, or None."""


def log_compilation(function: str, simulator: Any) -> None:
    """Announce that a function of a batch is compiled; see `announce`."""
    devices = f"{simulator.num_devices} devices of " if simulator.num_devices > 1 else ""
    announce(
        f"{function} of {simulator.env.metadata.name}, {simulator.num_envs} "
        f"environment{'s' * (simulator.num_envs != 1)} on {devices}{simulator.platform}",
        "a minute",
    )


def announce(what: str, duration: str) -> None:
    """Log that a function is compiled; call it inside the function, so that a trace runs it.

    What takes longer than a few seconds is logged again when it is done, as a warning, once per
    process: how long it took, and how to keep it. If the user keeps it already, nothing is logged.
    """
    _LOG.info("Compiling %s. This can take %s.", what, duration)
    _announced.what = what


def _note(seconds: float) -> None:
    """Take note of the end of any compilation in this process; ours follows its announcement."""
    what, _announced.what = getattr(_announced, "what", None), None
    config: Any = jax.config
    if what is None or seconds < _SLOW or config.jax_compilation_cache_dir or _SAID.is_set():
        return
    _SAID.set()
    _LOG.warning(
        "Compiling %s took %.0f s. To keep compiled functions for the next process, set the "
        "environment variable JAX_COMPILATION_CACHE_DIR to a folder. This is logged once.",
        what,
        seconds,
    )


listen_to_compilations(_note)
