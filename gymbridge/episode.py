"""The core: what a simulator is, and the one place where episodes end and begin again.

The three autoreset modes of Gymnasium differ only in when a restart mask is applied, never in
physics. So an engine implements two masked verbs, `restart` and `advance`, and this page holds the
autoreset rule and the time limit for all of them. Nothing here names an array library: masks are
combined with ``&``, ``|`` and ``~``, and the rest moves pytrees, so a pure simulator compiles the
rule as one function and a host simulator runs it as it stands::

    the limit   elapsed = 0 where restarted, else elapsed + 1
                truncated = (tick.truncated | elapsed >= limit) & ~terminated
    NEXT_STEP   advance(restart = ended)                             ended' = terminated | truncated
    SAME_STEP   advance(), then restart(mask = over)                 ended' = none
    DISABLED    advance(hold = ended)                                ended' = terminated | truncated
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from gymnasium import Space
from gymnasium.vector import AutoresetMode

__all__ = [
    "STEP_INFOS",
    "Arrange",
    "AutoresetRule",
    "Carry",
    "Outcome",
    "ResetRule",
    "Seeds",
    "Simulator",
    "Tick",
]

STEP_INFOS = ("nonfinite",)
"""Infos that speak of a step, not of the episode on show: SAME_STEP keeps them from the step."""

_StateT = TypeVar("_StateT")


class Tick(NamedTuple):
    """What a simulator shows after a verb; every leaf leads with num_envs.

    `terminated` and `truncated` are the task's own flags when a simulator returns them, and
    include the user's limit once the rule has seen them.
    """

    obs: Any  # pytree of (num_envs, ...)
    reward: Any  # (num_envs,) float
    terminated: Any  # (num_envs,) bool
    truncated: Any  # (num_envs,) bool
    info: dict[str, Any]  # nested dicts of (num_envs, ...)


class Carry(NamedTuple):
    """The batch between two calls."""

    state: Any  # the simulator's own
    elapsed: Any  # (num_envs,) int32, steps since the episode began
    ended: Any  # (num_envs,) bool, rows whose episode is over and not yet begun again


class Seeds(NamedTuple):
    """Seeds of a restart; rows that are not `given` draw on from their running stream."""

    values: Any  # (num_envs,) uint32
    given: Any  # (num_envs,) bool


class Outcome(NamedTuple):
    """What one call of `reset` or `step` makes."""

    carry: Any  # a `Carry`, or what `Simulator.compile` makes of it
    tick: Tick  # what the user sees
    final: Tick | None  # SAME_STEP steps: the tick before the restarts


Arrange = Callable[..., Outcome]
"""(outcome, and what the rule took) -> the outcome as the user is to see it."""


class Simulator(Protocol[_StateT]):
    """A batch of simulations with two masked verbs; all that an engine has to provide.

    Attributes:
        single_observation_space: Space of one environment's observation.
        single_action_space: Space of one environment's action.
        metadata: Gymnasium metadata of the task, without the autoreset mode.
        task_limit: Steps after which the task's episodes are cut by default, or None.
        seed_range: Largest seed that the engine can hold; the smallest is 0.
        native: Kind of the arrays it works with: "numpy", "jax", or "torch" where a graph of
            gradients runs through it.
    """

    num_envs: int
    single_observation_space: Space[Any]
    single_action_space: Space[Any]
    metadata: dict[str, Any]
    task_limit: int | None
    seed_range: int
    native: str

    @property
    def engine(self) -> Any:
        """The engine's own object, whose attributes are those of every environment."""
        ...

    def restart(
        self, state: _StateT | None, mask: Any, seeds: Seeds | None
    ) -> tuple[_StateT, Tick]:
        """Begin an episode in the rows under `mask`; the others keep their current tick.

        Args:
            state: The batch, or None to make the first one (then `mask` is all True).
            mask: (num_envs,) bool.
            seeds: New seeds for rows under the mask, or None to draw on.

        Returns:
            The state and a tick whose reward is zero and whose flags are False under the mask.
        """
        ...

    def advance(
        self, state: _StateT, actions: Any, restart: Any, hold: Any
    ) -> tuple[_StateT, Tick]:
        """Take one step.

        Args:
            state: The batch.
            actions: Batched actions, (num_envs, ...).
            restart: (num_envs,) bool or None; these rows begin an episode and ignore their action.
            hold: (num_envs,) bool or None; these rows stay as they are: same observation and
                flags, reward zero. Never overlaps `restart`. Which of the two masks exist is
                fixed at construction.

        Returns:
            The state and the tick after it.
        """
        ...

    def compile(
        self, rule: Callable[..., Outcome], arrange: Arrange | None
    ) -> Callable[..., Outcome]:
        """Return ``arrange(rule(*args), *args)`` as the function of `args` that runs fastest here.

        Args:
            rule: A `ResetRule` or an `AutoresetRule` of this simulator.
            arrange: What is done to the outcome on the simulator's own arrays; None for nothing.
        """
        ...

    def close(self) -> None:
        """Release what the simulator holds."""
        ...


def _count(tick: Tick, elapsed: Any, limit: int | None) -> Tick:
    """Return the tick with the time limit in its `truncated`."""
    truncated = tick.truncated if limit is None else tick.truncated | (elapsed >= limit)
    return tick._replace(truncated=truncated & ~tick.terminated)


@dataclass(frozen=True)
class ResetRule(Generic[_StateT]):
    """The rule of `reset`: (carry or None, mask, seeds) -> `Outcome`.

    Rows outside the mask keep observation, elapsed steps and a pending restart.
    """

    simulator: Simulator[_StateT]

    def __call__(self, carry: Carry | None, mask: Any, seeds: Seeds | None) -> Outcome:
        """Begin new episodes under `mask`; with no carry, in every row."""
        if carry is None:
            state, tick = self.simulator.restart(None, mask, seeds)
            elapsed, ended = 0 * mask.astype("int32"), ~mask
        else:
            state, tick = self.simulator.restart(carry.state, mask, seeds)
            elapsed, ended = carry.elapsed * ~mask, carry.ended & ~mask
        return Outcome(Carry(state, elapsed, ended), tick, None)


@dataclass(frozen=True)
class AutoresetRule(Generic[_StateT]):
    """The rule of `step`: (carry, actions) -> `Outcome`.

    Attributes:
        simulator: Provider of physics.
        mode: When ended rows begin again.
        limit: Steps after which an episode is truncated, or None for never.
    """

    simulator: Simulator[_StateT]
    mode: AutoresetMode
    limit: int | None

    @property
    def refuses_ended(self) -> bool:
        """Whether the user has to reset ended rows before the next step."""
        return self.mode == AutoresetMode.DISABLED

    @property
    def restarts_ended(self) -> bool:
        """Whether a step restarts the rows that it ends."""
        return self.mode == AutoresetMode.SAME_STEP

    def __call__(self, carry: Carry, actions: Any) -> Outcome:
        """Take one step of every row and restart the ended ones as the mode says."""
        return _RULES[self.mode](self, carry, actions)


def _next_step(rule: AutoresetRule[Any], carry: Carry, actions: Any) -> Outcome:
    state, tick = rule.simulator.advance(carry.state, actions, carry.ended, None)
    elapsed = (carry.elapsed + 1) * ~carry.ended
    tick = _count(tick, elapsed, rule.limit)
    ended = tick.terminated | tick.truncated
    return Outcome(Carry(state, elapsed, ended), tick, None)


def _same_step(rule: AutoresetRule[Any], carry: Carry, actions: Any) -> Outcome:
    state, tick = rule.simulator.advance(carry.state, actions, None, None)
    elapsed = carry.elapsed + 1
    final = _count(tick, elapsed, rule.limit)
    over = final.terminated | final.truncated
    state, fresh = rule.simulator.restart(state, over, None)
    kept = {key: final.info[key] for key in STEP_INFOS if key in final.info}
    shown = final._replace(obs=fresh.obs, info={**fresh.info, **kept})
    carry = Carry(state, elapsed * ~over, over & ~over)
    return Outcome(carry, shown, final)


def _disabled(rule: AutoresetRule[Any], carry: Carry, actions: Any) -> Outcome:
    state, tick = rule.simulator.advance(carry.state, actions, None, carry.ended)
    elapsed = carry.elapsed + ~carry.ended
    tick = _count(tick, elapsed, rule.limit)
    ended = tick.terminated | tick.truncated
    return Outcome(Carry(state, elapsed, ended), tick, None)


_RULES: dict[AutoresetMode, Callable[[AutoresetRule[Any], Carry, Any], Outcome]] = {
    AutoresetMode.NEXT_STEP: _next_step,
    AutoresetMode.SAME_STEP: _same_step,
    AutoresetMode.DISABLED: _disabled,
}
