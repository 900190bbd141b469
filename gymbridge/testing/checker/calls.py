"""A call of `reset` or `step`, and the rules about the types and shapes of what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from gymbridge.testing.checker.rule import EXTRA, Place, Rule

__all__ = ["Call"]

_TEST = "tests/vector/test_sync_vector_env.py, `test_step_sync_vector_env`"

RESET_RETURNS = Rule(
    "reset-returns",
    "`reset` returns observations and a dict of infos, without an error.",
    "vector/vector_env.py, `VectorEnv.reset`",
)
STEP_RETURNS = Rule(
    "step-returns",
    "`step` takes an action for each environment and returns observations, rewards, terminations, "
    "truncations and a dict of infos, without an error.",
    "vector/vector_env.py, `VectorEnv.step`",
)
OBSERVATIONS = Rule(
    "observations",
    "Observations have the structure, shapes and dtypes of the batched space.",
    _TEST,
)
IN_SPACE = Rule(
    "observations-in-space",
    "Each observation, including those in `final_obs`, lies in `single_observation_space`.",
    "utils/passive_env_checker.py, `check_obs`",
)
REWARDS = Rule("rewards", "Rewards are a floating-point array of shape (num_envs,).", _TEST)
FLAGS = Rule(
    "flags", "Terminations and truncations are boolean arrays of shape (num_envs,).", _TEST
)
RESET_MASK = Rule(
    "reset-mask",
    "`reset(options={'reset_mask': mask})` begins episodes where the mask is True, and only there.",
    "tests/vector/test_vector_env.py, `test_partial_reset`",
    documented_in=AutoresetMode.DISABLED,
    needs="two environments",
)
OPTIONS = Rule(
    "options-unchanged",
    "`reset` does not change the caller's `options`.",
    "not kept: `SyncVectorEnv.reset` removes `reset_mask`",
    EXTRA,
    needs="two environments",
)
ACTIONS = Rule(
    "actions-unchanged",
    "`step` does not change the caller's actions.",
    "not stated; kept by all of Gymnasium's vector environments",
    EXTRA,
)


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
    kinds: list[str]  # how each episode had ended before the call; "" if it had not

    def at(self, env: Any) -> Place:
        """Return the place of one environment in this call."""
        return self.place._replace(env=int(env))

    @property
    def waiting(self) -> np.ndarray:
        """Environments whose episode had ended before the call, (num_envs,) bool."""
        return np.array(self.kinds) != ""

    @property
    def ended(self) -> np.ndarray:
        """Environments whose episode ended in this call, (num_envs,) bool."""
        return self.terminated | self.truncated

    @property
    def end_kinds(self) -> list[str]:
        """How each episode ended in this call: "termination", "truncation" or ""."""
        names = np.where(self.terminated, "termination", np.where(self.ended, "truncation", ""))
        return [str(name) for name in names]
