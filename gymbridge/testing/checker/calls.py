"""A call of `reset` or `step`, and what it returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gymbridge.testing.checker.rule import Place

__all__ = ["Call"]


@dataclass
class Call:
    """A call of `reset` or `step` and what it returned, in numpy."""

    place: Place  # seed of the run and number of the step
    returned: Any  # not copied
    values: Any  # a copy of `returned` in numpy
    observations: list[Any]  # one by environment
    rewards: np.ndarray  # (num_envs,) float; zeros for `reset`
    terminated: np.ndarray  # (num_envs,) bool
    truncated: np.ndarray  # (num_envs,) bool
    infos: dict[str, Any]  # a copy in numpy
    final_obs: list[Any]  # one where an episode ended; None elsewhere and where there is none
    mask: np.ndarray | None  # (num_envs,) bool, what a `reset` resets; None for a `step`
    kinds: np.ndarray  # (num_envs,) str, how the episode had ended before the call, or ""

    def at(self, env: Any) -> Place:
        """Return the place of one environment in this call."""
        return self.place._replace(env=int(env))

    @property
    def ended(self) -> np.ndarray:
        """Environments whose episode ended in this call, (num_envs,) bool."""
        return self.terminated | self.truncated

    @property
    def end_kinds(self) -> np.ndarray:
        """How episodes ended in this call, (num_envs,) str: "termination", "truncation" or ""."""
        return np.where(self.terminated, "termination", np.where(self.truncated, "truncation", ""))
