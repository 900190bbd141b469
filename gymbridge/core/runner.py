"""How the episode rule of one batch is run. Which runner a batch has is chosen at construction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from gymbridge.core.episode import Carry, EpisodeRule, ResetRequest
from gymbridge.core.infos import InfoLayout

__all__ = ["HostRunner", "MakeRunner", "Runner"]


class Runner(Protocol):
    """`reset` and `step` of one batch; both return what `InfoLayout.collect_infos` does.

    Its `freeze` and `unpack` are for classes that keep a `Carry` between two calls.
    """

    def reset(self, carry: Any, mask: np.ndarray, seeds: ResetRequest) -> Any:
        """Begin new episodes under `mask`, (num_envs,) bool; in every row if `carry` is None."""
        ...

    def step(self, carry: Any, actions: Any) -> Any:
        """Take one step in every row."""
        ...

    def link(self, read: Callable[[Any, np.ndarray], Any]) -> Callable[[Any, np.ndarray], Any]:
        """Return the reader of an option of `reset` as this runner needs it."""
        return read

    def freeze(self, carry: Any, rows: np.ndarray) -> Any:
        """Return the carry with which the next step leaves `rows`, (num_envs,) bool, as they are.

        It is for `AutoresetMode.DISABLED`, whose step leaves ended rows as they are: `rows` are
        marked as ended. Each step finds out anew which rows have ended.
        """
        return carry._replace(ended=carry.ended | rows)

    def unpack(self, carry: Any) -> Any:
        """Return the carry with the simulator's own state as its `state`."""
        return carry


MakeRunner = Callable[[EpisodeRule[Any], InfoLayout], Runner]
"""From the episode rule of a batch and the layout of its infos to what runs it."""


class HostRunner(Runner):
    """Calls the rule directly, over a simulator that works with arrays of numpy or torch."""

    def __init__(self, rule: EpisodeRule[Any], infos: InfoLayout) -> None:
        self._rule, self._infos = rule, infos

    def reset(self, carry: Carry | None, mask: np.ndarray, seeds: ResetRequest) -> Any:
        """Begin new episodes; see `Runner.reset`."""
        return self._infos.collect_infos(self._rule.reset(carry, mask, seeds))

    def step(self, carry: Carry, actions: Any) -> Any:
        """Take one step; see `Runner.step`."""
        return self._infos.collect_infos(self._rule.step(carry, actions))
