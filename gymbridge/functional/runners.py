"""Runners of pure simulators: the rule compiled with the physics into one function."""

from __future__ import annotations

import logging
from typing import Any

import jax
import numpy as np

from gymbridge.core.episode import EpisodeRule, Outcome, Seeds
from gymbridge.core.infos import InfoLayout
from gymbridge.errors import DivergedError

__all__ = ["JitRunner", "RaisingRunner", "log_compilation"]

_LOG = logging.getLogger("gymbridge")


class JitRunner:
    """One compiled function for `reset` and one for `step`, whose arrays are on one device.

    Args:
        rule: The batch's, over a simulator with a `device`.
        infos: The layout of its infos.
    """

    native = "jax"

    def __init__(self, rule: EpisodeRule[Any], infos: InfoLayout) -> None:
        self._rule, self._infos = rule, infos
        simulator: Any = rule.simulator
        place = jax.sharding.SingleDeviceSharding(simulator.device)
        self.reset = jax.jit(self._reset, out_shardings=place)
        self.step = jax.jit(self._step, out_shardings=place)

    def _reset(self, carry: Any, mask: Any, seeds: Seeds) -> Outcome:
        log_compilation("reset", self._rule.simulator)
        return self._infos.arrange_reset(self._rule.reset(carry, mask, seeds), mask)

    def _step(self, carry: Any, actions: Any) -> Outcome:
        log_compilation("step", self._rule.simulator)
        return self._infos.arrange_step(self._rule.step(carry, actions))


class RaisingRunner:
    """A `JitRunner` that raises when a row diverged, before anything is kept.

    Args:
        rule: The batch's, over a guarded simulator.
        infos: The layout of its infos, in which "nonfinite" is arranged as the simulator gave it.
    """

    native = "jax"

    def __init__(self, rule: EpisodeRule[Any], infos: InfoLayout) -> None:
        self._runner = JitRunner(rule, infos)

    def reset(self, carry: Any, mask: np.ndarray, seeds: Seeds) -> Outcome:
        """Begin new episodes, which have not diverged."""
        return self._runner.reset(carry, mask, seeds)

    def step(self, carry: Any, actions: Any) -> Outcome:
        """Take one step.

        Raises:
            DivergedError: The physics of a row ceased to be finite.
        """
        outcome = self._runner.step(carry, actions)
        rows = np.flatnonzero(np.asarray(outcome.time_step.info["nonfinite"]))
        if rows.size:
            raise DivergedError(
                f"Environments {rows.tolist()} produced NaN or Inf, and the step was rolled back. "
                "Use other actions, reset them, or construct with `nonfinite='terminate'`."
            )
        return outcome


def log_compilation(function: str, simulator: Any) -> None:
    """Log that a function is compiled. Call it where the function is traced, so once."""
    env = getattr(simulator.engine, "unwrapped", simulator.engine)
    backend = getattr(env, "backend", None)
    _LOG.info(
        "Compiling %s of %s (%s%d environments, %s). This can take a minute.",
        function,
        type(env).__name__,
        f"backend {backend}, " if backend else "",
        simulator.num_envs,
        simulator.device.platform,
    )
