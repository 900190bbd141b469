"""Runners of pure simulators: the episode rule and the physics, compiled as one function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from gymbridge.core.episode import Carry, EpisodeRule, Outcome, Seeds
from gymbridge.core.infos import InfoLayout
from gymbridge.core.runner import Runner
from gymbridge.errors import DivergedError
from gymbridge.functional.compilation import log_compilation
from gymbridge.functional.simulator import FunctionalSimulator
from gymbridge.functional.spreading import find_sharding, split_rule, spread

__all__ = ["FunctionalRunner", "JitRunner", "RaisingRunner", "make_pure"]


class FunctionalRunner(Runner, Protocol):
    """What a batch of functional environments needs of its runner.

    Attributes:
        rule: The episode rule that it runs.
    """

    rule: EpisodeRule[FunctionalSimulator]

    def pack(self, carry: Carry) -> Any:
        """Return one of the rule's carries as this runner keeps it; `unpack` is the way back."""
        return carry

    def observe(self, carry: Any) -> Any:
        """Return the current observation, in arrays of their own."""
        ...

    def apply(self, function: Callable[[Carry, Any], Any], carry: Any, actions: Any) -> Any:
        """Return what a compiled function of the rule's carry and actions returns.

        Args:
            function: It takes and returns trees of JAX's arrays.
            carry: As this runner keeps it.
            actions: As `step` takes them.

        Returns:
            returned: The same tree, in this runner's arrays.
        """
        ...


class JitRunner(FunctionalRunner):
    """One compiled function for `reset` and one for `step`.

    Each of several devices runs the rule on its own rows, since no row depends on another.
    """

    native: ClassVar[str] = "jax"

    def __init__(self, rule: EpisodeRule[FunctionalSimulator], infos: InfoLayout) -> None:
        self.rule, simulator, part = rule, rule.simulator, split_rule(rule)

        # Functions, since bound methods would be a circle that keeps what was compiled alive.
        def reset(carry: Any, mask: Any, seeds: Seeds) -> Outcome:
            log_compilation("reset", simulator)
            return infos.arrange(part.reset(carry, mask, seeds))

        def step(carry: Any, actions: Any) -> Outcome:
            log_compilation("step", simulator)
            return infos.arrange(part.step(carry, actions))

        def observe(carry: Carry) -> Any:
            return jax.tree.map(jnp.copy, simulator.read(carry.state).obs)

        place, sharding = simulator.device, find_sharding(simulator.device)
        self.reset = jax.jit(spread(reset, place), out_shardings=sharding)
        self.step = jax.jit(spread(step, place), out_shardings=sharding)
        self.observe = jax.jit(observe, out_shardings=sharding)

    def apply(self, function: Callable[[Carry, Any], Any], carry: Carry, actions: Any) -> Any:
        """Return what a function returns; see `FunctionalRunner.apply`."""
        return function(carry, actions)


class RaisingRunner(JitRunner):
    """A `JitRunner` that raises if a step produced NaN or Inf, and forgets that step.

    The simulator must be guarded, and `infos` must leave "nonfinite" as the simulator gives it.
    """

    def __init__(self, rule: EpisodeRule[FunctionalSimulator], infos: InfoLayout) -> None:
        super().__init__(rule, infos)
        # A function, since a bound method would be a circle that keeps what was compiled alive.
        self.step = partial(_step_or_raise, self.step)


def _step_or_raise(step: Callable[[Any, Any], Outcome], carry: Any, actions: Any) -> Outcome:
    """Return the outcome of a step.

    Raises:
        DivergedError: A row produced NaN or Inf.
    """
    outcome = step(carry, actions)
    rows = np.flatnonzero(np.asarray(outcome.time_step.info["nonfinite"]))
    if rows.size:
        raise DivergedError(
            f"Environments {rows.tolist()} produced NaN or Inf, and the step was rolled back. "
            "Use other actions, reset them, or construct with `nonfinite='terminate'`."
        )
    return outcome


def make_pure(
    rule: EpisodeRule[FunctionalSimulator], infos: InfoLayout, carry: Any
) -> tuple[Any, Callable[..., tuple[Any, Any]], Callable[..., tuple[Any, Any]]]:
    """Return a copy of a batch's carry, and its `reset` and `step` as pure functions of JAX.

    Args:
        rule: Episode rule of a batch with jax arrays.
        infos: Layout of its infos.
        carry: Its carry.

    Returns:
        carry: A copy.
        reset: (carry, mask, seeds) -> (carry, (observations, infos)); seeds are (num_envs,) uint32
            or None.
        step: (carry, actions) -> (carry, what `step` returns).
    """
    place, part = rule.simulator.device, split_rule(rule)

    def reset_rows(carry: Any, mask: Any, seeds: Any) -> tuple[Any, Any]:
        given = None if seeds is None else Seeds(seeds, mask)
        outcome = infos.arrange(part.reset(carry, mask, given))
        obs, *_, found = infos.lay_out(outcome)
        return outcome.carry, (obs, found)

    def step_rows(carry: Any, actions: Any) -> tuple[Any, Any]:
        outcome = infos.arrange(part.step(carry, actions))
        return outcome.carry, infos.lay_out(outcome)

    run_reset = spread(reset_rows, place)

    def reset(carry: Any, mask: Any, seeds: Any = None) -> tuple[Any, Any]:
        seeds = None if seeds is None else jnp.asarray(seeds, jnp.uint32)
        return run_reset(carry, jnp.asarray(mask), seeds)

    return jax.tree.map(jnp.copy, carry), reset, spread(step_rows, place)
