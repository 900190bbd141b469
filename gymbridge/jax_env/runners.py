"""Runners of pure simulators: the episode rule and the physics, compiled as one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from gymbridge.core.episode import NONFINITE, Carry, EpisodeRule, ResetRequest, StepResult
from gymbridge.core.infos import InfoLayout
from gymbridge.core.runner import Runner
from gymbridge.jax_env.compilation import log_compilation
from gymbridge.jax_env.divergence import check_divergence
from gymbridge.jax_env.simulator import JaxSimulator
from gymbridge.jax_env.spreading import find_sharding, spread

__all__ = ["JaxRule", "JaxRunner", "JitRunner", "make_pure"]


class JaxRule(EpisodeRule[JaxSimulator]):
    """The rule, whose carry has no more of the last time step than the next call needs.

    Where a call may leave a row as it is, that is all; otherwise it is the observation. Each leaf
    that a compiled function takes or returns costs some microseconds. With `of_one_device` it is
    the rule of the rows of one device.
    """

    def __init__(self, rule: EpisodeRule[JaxSimulator], *, of_one_device: bool = False) -> None:
        simulator = rule.simulator.split() if of_one_device else rule.simulator
        super().__init__(simulator, rule.mode, rule.limit)

    def reset(self, carry: Any, mask: Any, seeds: ResetRequest | None) -> StepResult:
        """Begin new episodes; see `EpisodeRule.reset`."""
        return self._without_rest(super().reset(carry, mask, seeds))

    def step(self, carry: Carry, actions: Any) -> StepResult:
        """Take one step; see `EpisodeRule.step`."""
        return self._without_rest(super().step(carry, actions))

    def _without_rest(self, result: StepResult) -> StepResult:
        if self.refuses_ended:
            return result
        carry: Carry = result.carry
        return result._replace(carry=carry._replace(state=self.simulator.without_rest(carry.state)))


class JaxRunner(Runner, Protocol):
    """What a batch of JAX environments needs of its runner."""

    rule: EpisodeRule[JaxSimulator]

    def pack(self, carry: Carry) -> Any:
        """Return one of the rule's carries as this runner keeps it; `unpack` is the way back."""
        return carry

    def observe(self, carry: Any) -> Any:
        """Return a copy of the current observation."""

        def read(carry: Carry, _: None) -> Any:
            return jax.tree.map(jnp.copy, carry.state.rows.seen.obs)

        return self.apply(read, carry, None)

    def apply(self, function: Callable[[Carry, Any], Any], carry: Any, actions: Any) -> Any:
        """Return what a compiled function of the rule's carry and actions returns.

        The function takes and returns trees of JAX's arrays. All else is in this runner's.
        """
        return function(self.unpack(carry), actions)


class JitRunner(JaxRunner):
    """One compiled function for `reset` and one for `step`.

    Each of several devices runs the rule on its own rows, since no row depends on another. With
    `raises`, for which the simulator must be guarded, a step in which a row produced NaN or Inf
    raises and is forgotten.
    """

    def __init__(
        self, rule: EpisodeRule[JaxSimulator], infos: InfoLayout, *, raises: bool = False
    ) -> None:
        self.rule, simulator = JaxRule(rule), rule.simulator
        part = JaxRule(rule, of_one_device=True)

        # Functions, since bound methods would be a circle that keeps what was compiled alive.
        def reset(carry: Any, mask: Any, seeds: ResetRequest) -> Any:
            log_compilation("reset", simulator)
            return infos.collect_infos(part.reset(carry, mask, seeds))

        def step(carry: Any, actions: Any) -> Any:
            log_compilation("step", simulator)
            outcome = part.step(carry, actions)
            found = infos.collect_infos(outcome)
            return (found, outcome.time_step.info[NONFINITE]) if raises else found

        def step_or_raise(carry: Any, actions: Any) -> Any:
            found, diverged = run(carry, actions)
            check_divergence(diverged)
            return found

        place, sharding = simulator.device, find_sharding(simulator.device)
        self.reset = jax.jit(spread(reset, place), out_shardings=sharding)
        run = jax.jit(spread(step, place), out_shardings=sharding)
        self.step = step_or_raise if raises else run


def make_pure(
    rule: EpisodeRule[JaxSimulator], infos: InfoLayout, carry: Any
) -> tuple[Any, Callable[..., tuple[Any, Any]], Callable[..., tuple[Any, Any]]]:
    """Return a copy of a batch's carry, and its `reset` and `step` as pure functions of JAX.

    Returns:
        carry: A copy.
        reset: (carry, mask, seeds) -> (carry, (observations, infos)); seeds are (num_envs,) uint32
            or None.
        step: (carry, actions) -> (carry, what `step` returns).
    """
    place, part = rule.simulator.device, JaxRule(rule, of_one_device=True)

    def reset_rows(carry: Any, mask: Any, seeds: Any) -> tuple[Any, Any]:
        given = None if seeds is None else ResetRequest(seeds, mask)
        outcome = infos.collect_infos(part.reset(carry, mask, given))
        obs, *_, found = infos.to_gymnasium(outcome)
        return outcome.carry, (obs, found)

    def step_rows(carry: Any, actions: Any) -> tuple[Any, Any]:
        outcome = infos.collect_infos(part.step(carry, actions))
        return outcome.carry, infos.to_gymnasium(outcome)

    run_reset = spread(reset_rows, place)

    def reset(carry: Any, mask: Any, seeds: Any = None) -> tuple[Any, Any]:
        seeds = None if seeds is None else jnp.asarray(seeds, jnp.uint32)
        return run_reset(carry, jnp.asarray(mask), seeds)

    return jax.tree.map(jnp.copy, carry), reset, spread(step_rows, place)
