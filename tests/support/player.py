"""The one player of episodes: it calls a batch, and resets by hand what the batch does not."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode

from tests.support.batches import draw_actions, to_kind, to_numpy


class Call(NamedTuple):
    """A call of a batch, what it was given and what it returned."""

    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    rows: np.ndarray
    """Which environments it reset or stepped."""
    returned: Any
    found: Any
    """A copy of what it returned, in numpy."""

    @property
    def is_reset(self) -> bool:
        return self.method == "reset"

    def again(self, envs: Any) -> Any:
        """Make the same call of another batch, and return what it returns."""
        args, kwargs = copy.deepcopy((self.args, self.kwargs))
        return getattr(envs, self.method)(*args, **kwargs)


class _Player:
    """A batch, and which environments have ended."""

    def __init__(self, envs: Any) -> None:
        self._envs, self.over = envs, np.zeros(envs.num_envs, np.bool_)
        self.is_manual = envs.metadata["autoreset_mode"] == AutoresetMode.DISABLED

    def reset(self, rows: np.ndarray, **kwargs: Any) -> Call:
        self.over = self.over & ~rows
        return self._call("reset", rows, **kwargs)

    def reset_some(self, rows: np.ndarray) -> Iterator[Call]:
        if rows.any():
            yield self.reset(rows, options={"reset_mask": self._convert(rows.copy())})

    def step(self, actions: Any, moves: np.ndarray | None) -> Call:
        if isinstance(actions, np.ndarray):
            actions = self._convert(actions)
        if moves is None:
            call = self._call("step", np.ones_like(self.over), actions)
        else:
            call = self._call("step_some", moves, actions, moves.copy())
        self.over = call.found[2] | call.found[3]
        return call

    def _call(self, method: str, rows: np.ndarray, *args: Any, **kwargs: Any) -> Call:
        returned = getattr(self._envs, method)(*args, **kwargs)
        return Call(method, args, kwargs, rows, returned, to_numpy(returned))

    def _convert(self, array: np.ndarray) -> Any:
        own = self._envs.unwrapped
        return to_kind(array, getattr(own, "arrays", "numpy"), getattr(own, "device", None))


def draw_at(envs: Any, index: int) -> np.ndarray:
    """Return the random actions of a step, by its number."""
    return draw_actions(envs, np.random.default_rng(index))


def calls(
    envs: Any,
    num_steps: int | None = None,
    *,
    seed: Any = 3,
    begins: bool = True,
    act: Callable[[int], Any] | None = None,
    disturb: np.random.Generator | None = None,
) -> Iterator[Call]:
    """Yield the calls of a run, each one when it was made.

    With autoreset disabled, ended environments are reset before the next step, and after the last.

    Args:
        envs: The batch, in any mode.
        num_steps: Steps to take; without a number, as long as calls are asked for.
        seed: Of the first reset.
        begins: Whether to reset first. Else the run goes on from where it stands.
        act: The actions of a step, by its number; by default those of `draw_at`.
        disturb: Draws environments that are reset while they run and, with autoreset disabled,
            those that are held.
    """
    player, size = _Player(envs), envs.num_envs
    act = act or partial(draw_at, envs)
    if begins:
        yield player.reset(np.ones(size, np.bool_), seed=seed)
    for index in itertools.count() if num_steps is None else range(num_steps):
        moves = np.zeros(size, np.bool_)
        if disturb is not None:
            while disturb.random() < 0.15:
                yield from player.reset_some(disturb.random(size) < 0.4)
            if player.is_manual and disturb.random() < 0.4:
                moves = ~player.over & (disturb.random(size) < 0.6)
        if player.is_manual and not moves.any():
            yield from player.reset_some(player.over)
        yield player.step(act(index), moves if moves.any() else None)
    if player.is_manual:
        yield from player.reset_some(player.over)


def play(
    envs: Any,
    num_steps: int,
    *,
    touch: Callable[[Any], None] = lambda call: None,
    **options: Any,
) -> list[Any]:
    """Return copies in numpy of all that the calls of a run return.

    Args:
        envs: The batch.
        num_steps: Steps to take.
        touch: Called after each call with what it returned and what it took.
        **options: As `calls` takes them.
    """
    log = []
    for call in calls(envs, num_steps, **options):
        log.append(call.found)
        touch((call.returned, (call.args, call.kwargs)))
    return log
