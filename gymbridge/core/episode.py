"""The core: what a simulator is, and the one place where episodes end and begin again.

The three autoreset modes of Gymnasium differ only in when a restart mask is applied, never in
physics. An engine implements two methods that take masks, `restart` and `advance`, and this module
applies the autoreset rule and the time limit for every engine. It names no array library: masks are
combined with ``&``, ``|`` and ``~``, and everything else is passed on as pytrees. A runner can
compile the rule and a pure simulator as one function, or call the rule over arrays of numpy or
torch::

    the limit   elapsed = 0 where restarted, else elapsed + 1
                truncated = (time_step.truncated | elapsed >= limit) & ~terminated
    NextStep    advance(restart = ended)                             ended' = terminated | truncated
    SameStep    advance(), restart(mask = terminated | truncated)    ended' = False everywhere
    Disabled    advance(freeze = ended)                              ended' = terminated | truncated
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from gymnasium import Space
from gymnasium.vector import AutoresetMode

__all__ = [
    "NONFINITE",
    "STEP_INFOS",
    "Carry",
    "EpisodeRule",
    "Renderer",
    "ResetRequest",
    "Simulator",
    "StepResult",
    "TimeStep",
    "View",
    "count_rows",
    "split_done",
    "truncate_at_limit",
    "truncated_unless_terminated",
]

NONFINITE = "nonfinite"
"""Name of the info that says which rows produced NaN or Inf."""

STEP_INFOS = (NONFINITE,)
"""Names of infos about the finished step, which SameStep does not take from the new episode."""


def truncated_unless_terminated(terminated: Any, truncated: Any) -> Any:
    """Return which episodes are truncated and not terminated: a termination wins."""
    return truncated & ~terminated


def truncate_at_limit(terminated: Any, truncated: Any, elapsed: Any, limit: Any) -> Any:
    """Return which episodes are truncated, by the task or by the time limit.

    Args:
        terminated: (num_envs,) bool.
        truncated: (num_envs,) bool, by the task.
        elapsed: (num_envs,) int, steps since the episode began.
        limit: Steps after which an episode is truncated, an int or (num_envs,) int.
    """
    return truncated_unless_terminated(terminated, truncated | (elapsed >= limit))


def split_done(done: Any, timeout: Any) -> tuple[Any, Any]:
    """Return `terminated` and `truncated` of an engine that marks the ends that are truncations.

    Args:
        done: (num_envs,) bool, episodes that ended.
        timeout: (num_envs,) bool, the engine's mark; it counts only where an episode ended.
    """
    return done & ~timeout, done & timeout


def count_rows(mask: Any) -> Any:
    """Return a mask of numpy or jax, (num_envs,) bool, as int32 with 1 where it is True."""
    return mask.astype("int32")


_StateT = TypeVar("_StateT")
_SimulatorT = TypeVar("_SimulatorT", bound="Simulator[Any]")


class TimeStep(NamedTuple):
    """What `restart` and `advance` return; the first axis of every array is num_envs.

    A simulator returns the task's own flags in `terminated` and `truncated`. `EpisodeRule` then
    adds the time limit to `truncated`.
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
    ended: Any  # (num_envs,) bool, rows whose episode is over and was not restarted yet


class ResetRequest(NamedTuple):
    """Seeds and options of a restart; rows without a given seed continue their random stream."""

    values: Any  # (num_envs,) uint32
    given: Any  # (num_envs,) bool
    options: Any = None  # a dict by name, as the simulator's `reset_options` read them; or None


class StepResult(NamedTuple):
    """The result of one call of `reset` or `step`."""

    carry: Any  # a `Carry`, or what a runner keeps in its place
    time_step: TimeStep  # what the user sees
    final: TimeStep | None = None  # SameStep steps: the time step before the restarts
    shown: Any = None  # (num_envs,) bool, rows that have infos; None for all


class View(NamedTuple):
    """How an environment is drawn."""

    size: tuple[int, int] | None  # width and height in pixels; None for the engine's own
    camera: int | str | None  # number or name; None for the engine's own


class Renderer(Protocol):
    """Draws a batch. It is made with the batch, and only `draw` may need OpenGL."""

    def draw(self, state: Any) -> list[Any]:
        """Return a frame of each environment in a simulator's state, (height, width, 3) uint8."""
        ...

    def close(self) -> None:
        """Release the resources for drawing."""
        ...


class Simulator(Protocol[_StateT]):
    """A batch of simulations: all that an engine has to provide.

    Attributes:
        num_envs: Size of the batch.
        single_observation_space: Space of one environment's observation.
        single_action_space: Space of one environment's action.
        metadata: Gymnasium metadata of the task, without the autoreset mode.
        task_limit: Steps after which the task's episodes are cut by default, or None.
        seed_range: Largest seed that the engine can hold; the smallest is 0.
        reset_options: Readers of the further options of `reset`, by name. A reader is a function
            (value, mask) -> tree of (num_envs, ...) arrays, with mask (num_envs,) bool. Only the
            rows under the mask are used.
    """

    num_envs: int
    single_observation_space: Space[Any]
    single_action_space: Space[Any]
    metadata: dict[str, Any]
    task_limit: int | None
    seed_range: int
    reset_options: Mapping[str, Callable[[Any, Any], Any]]

    @property
    def engine(self) -> Any:
        """The engine's own object; `get_attr` returns its attributes for every environment."""
        ...

    @property
    def built_with(self) -> Any:
        """What the simulations are built with: a named tuple or dataclass of settings, or None.

        `set_attr` refuses the names of its fields, since setting them would change nothing.
        """
        ...

    def restart(
        self, state: _StateT | None, mask: Any, seeds: ResetRequest | None
    ) -> tuple[_StateT, TimeStep]:
        """Begin an episode in the rows under `mask`; the others keep their current time step.

        Args:
            state: The batch, or None to make the first one (then `mask` is all True).
            mask: (num_envs,) bool.
            seeds: New seeds for rows under the mask; None to continue their random streams.

        Returns:
            The state, and a time step. Under the mask its reward is 0 and its flags are False.
        """
        ...

    def advance(
        self, state: _StateT, actions: Any, restart: Any, freeze: Any
    ) -> tuple[_StateT, TimeStep]:
        """Take one step.

        Args:
            state: The batch.
            actions: Batched actions, (num_envs, ...).
            restart: (num_envs,) bool or None; these rows begin an episode and ignore their action.
            freeze: (num_envs,) bool or None; these rows stay as they are: same observation and
                flags, reward zero. Never overlaps `restart`. The autoreset mode alone decides
                which of the two masks is None.

        Returns:
            The state and the time step after it.
        """
        ...

    def make_renderer(self, view: View) -> Renderer:
        """Return the renderer of the batch; it draws nothing yet.

        Raises:
            KeywordError: The task cannot be drawn.
            ArgumentError: The task has no such camera.
        """
        ...

    def close(self) -> None:
        """Release the simulator's resources."""
        ...


class EpisodeRule(Generic[_SimulatorT]):
    """When episodes begin and end in a batch: the autoreset mode and the time limit.

    Args:
        simulator: The batch of simulations.
        mode: When ended rows restart.
        limit: Steps after which an episode is truncated, or None for never.
        count: `count_rows`, or the same for another library of arrays.

    Attributes:
        refuses_ended: Whether the user has to reset ended rows before the next step.
        restarts_ended: Whether a step restarts the rows that it ends.
    """

    def __init__(
        self,
        simulator: _SimulatorT,
        mode: AutoresetMode,
        limit: int | None,
        count: Callable[[Any], Any] = count_rows,
    ) -> None:
        self.simulator, self.mode, self.limit, self._count = simulator, mode, limit, count
        self.refuses_ended = mode == AutoresetMode.DISABLED
        self.restarts_ended = mode == AutoresetMode.SAME_STEP

    def reset(self, carry: Carry | None, mask: Any, seeds: ResetRequest | None) -> StepResult:
        """Begin new episodes under `mask`, (num_envs,) bool; if `carry` is None, the first ones.

        Rows outside the mask keep observation, elapsed steps and a pending restart.
        """
        if carry is None:
            carry = Carry(None, self._count(mask), mask)
        state, time_step = self.simulator.restart(carry.state, mask, seeds)
        elapsed, ended = self._clear(carry.elapsed, mask), carry.ended & ~mask
        return StepResult(Carry(state, elapsed, ended), time_step, shown=mask)

    def step(self, carry: Carry, actions: Any) -> StepResult:
        """Take one step in every row, by the rule of the mode."""
        ended = carry.ended
        if self.restarts_ended:
            restart, freeze, elapsed = None, None, carry.elapsed + 1
        elif self.refuses_ended:
            restart, freeze, elapsed = None, ended, carry.elapsed + self._count(~ended)
        else:
            restart, freeze, elapsed = ended, None, self._clear(carry.elapsed + 1, ended)
        state, time_step = self.simulator.advance(carry.state, actions, restart, freeze)
        final = self._truncate(time_step, elapsed)
        over = final.terminated | final.truncated
        if not self.restarts_ended:
            return StepResult(Carry(state, elapsed, over), final)
        state, initial = self.simulator.restart(state, over, None)
        kept = {key: final.info[key] for key in STEP_INFOS if key in final.info}
        seen = final._replace(obs=initial.obs, info={**initial.info, **kept})
        return StepResult(Carry(state, self._clear(elapsed, over), over & ~over), seen, final)

    def _truncate(self, time_step: TimeStep, elapsed: Any) -> TimeStep:
        """Return the time step with the time limit in its `truncated`."""
        terminated, truncated = time_step.terminated, time_step.truncated
        if self.limit is None:
            truncated = truncated_unless_terminated(terminated, truncated)
        else:
            truncated = truncate_at_limit(terminated, truncated, elapsed, self.limit)
        return time_step._replace(truncated=truncated)

    def _clear(self, elapsed: Any, mask: Any) -> Any:
        """Return the counts with 0 under a mask; JAX may be set to multiply equal dtypes alone."""
        return elapsed * self._count(~mask)
