"""How the episode rule of one batch is run. Which runner a batch has is chosen at construction."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np

from gymbridge.core.episode import Carry, EpisodeRule, Outcome, Seeds
from gymbridge.core.infos import InfoLayout

__all__ = ["HostRunner", "Runner"]


class Runner(Protocol):
    """`reset` and `step` of one batch, with infos arranged for its user.

    Its `hold` and `unpack` are for classes that keep a `Carry` between two calls.

    Args:
        rule: The episode rule of the batch.
        infos: The layout of its infos.

    Attributes:
        native: Kind of the arrays that it takes and returns: "numpy", "jax" or "torch".
    """

    native: ClassVar[str]

    def __init__(self, rule: EpisodeRule[Any], infos: InfoLayout) -> None: ...

    def reset(self, carry: Any, mask: np.ndarray, seeds: Seeds) -> Outcome:
        """Begin new episodes under `mask`, (num_envs,) bool; in every row if `carry` is None."""
        ...

    def step(self, carry: Any, actions: Any) -> Outcome:
        """Take one step in every row."""
        ...

    def hold(self, carry: Any, rows: np.ndarray) -> Any:
        """Return the carry with which the next step leaves `rows`, (num_envs,) bool, as they are.

        It is for `AutoresetMode.DISABLED`, whose step leaves ended rows as they are: `rows` are
        marked as ended. Each step finds out anew which rows have ended.
        """
        return carry._replace(ended=carry.ended | rows)

    def unpack(self, carry: Any) -> Any:
        """Return the carry with the simulator's own state as its `state`."""
        return carry


class HostRunner(Runner):
    """Calls the rule directly, over a simulator that works with numpy arrays."""

    native: ClassVar[str] = "numpy"

    def __init__(self, rule: EpisodeRule[Any], infos: InfoLayout) -> None:
        self._rule, self._infos = rule, infos

    def reset(self, carry: Carry | None, mask: np.ndarray, seeds: Seeds) -> Outcome:
        """Begin new episodes; see `Runner.reset`."""
        return self._infos.arrange(self._rule.reset(carry, mask, seeds))

    def step(self, carry: Carry, actions: Any) -> Outcome:
        """Take one step; see `Runner.step`."""
        return self._infos.arrange(self._rule.step(carry, actions))
