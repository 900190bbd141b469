"""The core: what a simulator is, and the one place where episodes end and begin again.

The three autoreset modes of Gymnasium differ only in when a restart mask is applied, never in
physics. So an engine implements two masked verbs, `restart` and `advance`, and this page holds the
autoreset rule and the time limit for all of them. Nothing here names an array library: masks are
combined with ``&``, ``|`` and ``~``, and the rest moves pytrees, so a runner can compile the rule
over a pure simulator as one function, or call it over a host simulator as it stands::

    the limit   elapsed = 0 where restarted, else elapsed + 1
                truncated = (time_step.truncated | elapsed >= limit) & ~terminated
    NEXT_STEP   advance(restart = ended)                             ended' = terminated | truncated
    SAME_STEP   advance(), then restart(mask = over)                 ended' = none
    DISABLED    advance(hold = ended)                                ended' = terminated | truncated
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from gymnasium import Space
from gymnasium.vector import AutoresetMode

__all__ = [
    "STEP_INFOS",
    "Carry",
    "EpisodeRule",
    "Outcome",
    "Renderer",
    "Seeds",
    "Simulator",
    "TimeStep",
    "View",
]

STEP_INFOS = ("nonfinite",)
"""Infos of a step, not of the episode that begins in it: SAME_STEP keeps them from the step."""

_StateT = TypeVar("_StateT")
_SimulatorT = TypeVar("_SimulatorT", bound="Simulator[Any]")


class TimeStep(NamedTuple):
    """What a simulator returns after a verb; every leaf leads with num_envs.

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
    """What a user gives a restart; rows whose seed is not `given` draw on from their stream."""

    values: Any  # (num_envs,) uint32
    given: Any  # (num_envs,) bool
    options: Any = None  # a dict by name, as the simulator's `reset_options` read them; or None


class Outcome(NamedTuple):
    """What one call of `reset` or `step` makes."""

    carry: Any  # a `Carry`, or what a runner keeps in its place
    time_step: TimeStep  # what the user sees
    final: TimeStep | None = None  # SAME_STEP steps: the time step before the restarts
    begun: Any = None  # resets: (num_envs,) bool, rows that began an episode, which infos are of


class View(NamedTuple):
    """How an environment is drawn."""

    size: tuple[int, int] | None  # width and height in pixels; None for the engine's own
    camera: int | str | None  # number or name; None for the engine's own


class Renderer(Protocol):
    """Draws a batch. It is made at construction, and needs OpenGL at the first frame at most."""

    def draw(self, state: Any) -> list[Any]:
        """Return a frame of each environment in a simulator's state, (height, width, 3) uint8."""
        ...

    def close(self) -> None:
        """Release what drawing holds."""
        ...


class Simulator(Protocol[_StateT]):
    """A batch of simulations with two masked verbs; all that an engine has to provide.

    Attributes:
        single_observation_space: Space of one environment's observation.
        single_action_space: Space of one environment's action.
        metadata: Gymnasium metadata of the task, without the autoreset mode.
        task_limit: Steps after which the task's episodes are cut by default, or None.
        seed_range: Largest seed that the engine can hold; the smallest is 0.
        reset_options: Readers of what `reset` takes in its options beside the mask, by name:
            (value, mask) -> tree of (num_envs, ...) arrays, of which the rows under the mask
            count; the mask is (num_envs,) bool.
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
        """The engine's own object, whose attributes are those of every environment."""
        ...

    @property
    def built_with(self) -> Any:
        """What the simulations are built with: a named tuple or dataclass of settings, or None.

        `set_attr` refuses the names of its fields, since setting them would change nothing.
        """
        ...

    def restart(
        self, state: _StateT | None, mask: Any, seeds: Seeds | None
    ) -> tuple[_StateT, TimeStep]:
        """Begin an episode in the rows under `mask`; the others keep their current time step.

        Args:
            state: The batch, or None to make the first one (then `mask` is all True).
            mask: (num_envs,) bool.
            seeds: New seeds for rows under the mask, or None to draw on.

        Returns:
            The state and a time step whose reward is zero and whose flags are False under the mask.
        """
        ...

    def advance(
        self, state: _StateT, actions: Any, restart: Any, hold: Any
    ) -> tuple[_StateT, TimeStep]:
        """Take one step.

        Args:
            state: The batch.
            actions: Batched actions, (num_envs, ...).
            restart: (num_envs,) bool or None; these rows begin an episode and ignore their action.
            hold: (num_envs,) bool or None; these rows stay as they are: same observation and
                flags, reward zero. Never overlaps `restart`. Which of the two masks exist is
                fixed at construction.

        Returns:
            The state and the time step after it.
        """
        ...

    def make_renderer(self, view: View) -> Renderer:
        """Return who draws the batch, without drawing yet.

        Raises:
            KeywordError: The task cannot be drawn.
            ArgumentError: It has no such camera.
        """
        ...

    def close(self) -> None:
        """Release what the simulator holds."""
        ...


class EpisodeRule(Generic[_SimulatorT]):
    """When episodes begin and end in a batch: the autoreset mode and the time limit.

    Args:
        simulator: Provider of physics.
        mode: When ended rows begin again.
        limit: Steps after which an episode is truncated, or None for never.
    """

    def __init__(self, simulator: _SimulatorT, mode: AutoresetMode, limit: int | None) -> None:
        self.simulator, self.mode, self.limit = simulator, mode, limit
        # Functions, since bound methods would be a circle that keeps the simulator alive.
        kind: Any = EpisodeRule
        self._step: Any = {
            AutoresetMode.NEXT_STEP: kind._next_step,
            AutoresetMode.SAME_STEP: kind._same_step,
            AutoresetMode.DISABLED: kind._disabled,
        }[mode]

    @property
    def refuses_ended(self) -> bool:
        """Whether the user has to reset ended rows before the next step."""
        return self.mode == AutoresetMode.DISABLED

    @property
    def restarts_ended(self) -> bool:
        """Whether a step restarts the rows that it ends."""
        return self.mode == AutoresetMode.SAME_STEP

    def reset(self, carry: Carry | None, mask: Any, seeds: Seeds | None) -> Outcome:
        """Begin new episodes under `mask`; with no carry, in every row.

        Rows outside the mask keep observation, elapsed steps and a pending restart.
        """
        if carry is None:
            state, time_step = self.simulator.restart(None, mask, seeds)
            elapsed, ended = 0 * mask.astype("int32"), ~mask
        else:
            state, time_step = self.simulator.restart(carry.state, mask, seeds)
            elapsed, ended = carry.elapsed * ~mask, carry.ended & ~mask
        return Outcome(Carry(state, elapsed, ended), time_step, begun=mask)

    def step(self, carry: Carry, actions: Any) -> Outcome:
        """Take one step of every row, in this mode."""
        return self._step(self, carry, actions)

    def _next_step(self, carry: Carry, actions: Any) -> Outcome:
        state, time_step = self.simulator.advance(carry.state, actions, carry.ended, None)
        elapsed = (carry.elapsed + 1) * ~carry.ended
        time_step = self._count(time_step, elapsed)
        ended = time_step.terminated | time_step.truncated
        return Outcome(Carry(state, elapsed, ended), time_step)

    def _same_step(self, carry: Carry, actions: Any) -> Outcome:
        state, time_step = self.simulator.advance(carry.state, actions, None, None)
        elapsed = carry.elapsed + 1
        final = self._count(time_step, elapsed)
        over = final.terminated | final.truncated
        state, initial = self.simulator.restart(state, over, None)
        kept = {key: final.info[key] for key in STEP_INFOS if key in final.info}
        seen = final._replace(obs=initial.obs, info={**initial.info, **kept})
        return Outcome(Carry(state, elapsed * ~over, over & ~over), seen, final)

    def _disabled(self, carry: Carry, actions: Any) -> Outcome:
        state, time_step = self.simulator.advance(carry.state, actions, None, carry.ended)
        elapsed = carry.elapsed + ~carry.ended
        time_step = self._count(time_step, elapsed)
        ended = time_step.terminated | time_step.truncated
        return Outcome(Carry(state, elapsed, ended), time_step)

    def _count(self, time_step: TimeStep, elapsed: Any) -> TimeStep:
        """Return the time step with the time limit in its `truncated`."""
        truncated = time_step.truncated
        if self.limit is not None:
            truncated = truncated | (elapsed >= self.limit)
        return time_step._replace(truncated=truncated & ~time_step.terminated)
