"""Reads what `reset` and `step` return; the rules about its types and shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from gymbridge.testing.checker.rule import EXTRA, Ledger, Place, Rule, StoppedError
from gymbridge.testing.checker.values import contains, fits, is_array, rows_of, to_numpy

__all__ = ["Call", "Reader"]

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
    "`reset(options={'reset_mask': mask})` begins episodes only where the mask is True.",
    "tests/vector/test_vector_env.py, `test_partial_reset`",
    documented_in=AutoresetMode.DISABLED,
)
OPTIONS = Rule(
    "options-unchanged",
    "`reset` does not change the caller's `options`.",
    "not kept: `SyncVectorEnv.reset` removes `reset_mask`",
    EXTRA,
)
ACTIONS = Rule(
    "actions-unchanged",
    "`step` does not change the caller's actions.",
    "not stated; kept by all of Gymnasium's vector environments",
    EXTRA,
)


@dataclass
class Call:
    """A call of `reset` or `step` and what it returned, in numpy.

    Attributes:
        place: Seed of the run and number of the step.
        returned: What the environment returned, not copied.
        values: A copy of `returned` in numpy.
        observations: The observation of each environment, in numpy.
        rewards: (num_envs,) float; zeros for `reset`.
        terminated: (num_envs,) bool.
        truncated: (num_envs,) bool.
        infos: A copy in numpy.
        final_obs: What `final_obs` holds for each environment whose episode ended, in numpy; None
            for the others, and where there is nothing to read.
        mask: (num_envs,) bool for a `reset`, True for environments to reset; None for a `step`.
        kinds: How the episode of each environment had ended before the call; "" if it had not.
    """

    place: Place
    returned: Any
    values: Any
    observations: list[Any]
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    infos: dict[str, Any]
    final_obs: list[Any]
    mask: np.ndarray | None
    kinds: list[str]

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


class Reader:
    """Calls an environment and reads what it returns.

    Args:
        ledger: Records which rules were kept or broken.
        single_spaces: Space of a single observation, for each environment.
        batch_space: Space of a batch of observations.
        num_envs: Size of the batch.
    """

    def __init__(
        self,
        ledger: Ledger,
        single_spaces: list[gym.Space[Any]],
        batch_space: gym.Space[Any],
        num_envs: int,
    ) -> None:
        self._ledger, self._single, self._batch = ledger, single_spaces, batch_space
        self._num_envs = num_envs

    def reset(
        self,
        function: Callable[[], Any],
        place: Place,
        mask: np.ndarray,
        kinds: list[str],
        rule: Rule,
    ) -> Call:
        """Call `reset` and read what it returns; an error breaks `rule`."""
        returned = self._call(rule, 2, function, place)
        obs, infos = values = to_numpy(returned)
        rows = self._read_observations(obs, place, rule)
        zeros, flags = np.zeros(self._num_envs), np.zeros(self._num_envs, np.bool_)
        final: list[Any] = [None] * self._num_envs
        return Call(place, returned, values, rows, zeros, flags, flags, infos, final, mask, kinds)

    def step(self, function: Callable[[], Any], place: Place, kinds: list[str], rule: Rule) -> Call:
        """Call `step` and read what it returns; an error breaks `rule`."""
        returned = self._call(rule, 5, function, place)
        obs, rewards, terminated, truncated, infos = values = to_numpy(returned)
        rows = self._read_observations(obs, place, rule)
        rewards = self._read_numbers(REWARDS, "f", rewards, place)
        terminated = self._read_numbers(FLAGS, "b", terminated, place).astype(np.bool_)
        truncated = self._read_numbers(FLAGS, "b", truncated, place).astype(np.bool_)
        flags, final = (terminated, truncated), self._read_final(infos, terminated | truncated)
        return Call(place, returned, values, rows, rewards, *flags, infos, final, None, kinds)

    def _call(self, rule: Rule, length: int, function: Callable[[], Any], place: Place) -> Any:
        wanted = f"a tuple of {length}, the last a dict"
        returned = self._ledger.require(rule, function, wanted, place)
        is_kept = (
            isinstance(returned, tuple)
            and len(returned) == length
            and isinstance(returned[-1], Mapping)
        )
        # Other rules are judged by more than this call.
        if rule in (RESET_RETURNS, STEP_RETURNS) or not is_kept:
            self._ledger.expect(rule, is_kept, expected=wanted, seen=returned, place=place)
        if not is_kept:
            raise StoppedError
        return returned

    def _read_observations(self, obs: Any, place: Place, rule: Rule) -> list[Any]:
        is_kept, seen = fits(self._batch, obs, is_batch=True), _shapes(obs)
        expected = _shapes_of(self._batch)
        if rule is not RESET_MASK:
            self._ledger.expect(OBSERVATIONS, is_kept, expected=expected, seen=seen, place=place)
        elif not is_kept:  # Some adapters return the rows under the mask alone.
            self._ledger.expect(rule, False, expected=expected, seen=seen, place=place)
            raise StoppedError
        try:
            rows = rows_of(self._batch, obs)
            kept = [contains(*pair) for pair in zip(self._single, rows, strict=False)]
        except Exception as error:
            raise StoppedError from error
        if len(rows) != self._num_envs:
            raise StoppedError
        env = kept.index(False) if False in kept else None
        self._ledger.expect(
            IN_SPACE,
            env is None,
            expected=f"an element of {self._single[env or 0]}",
            seen=rows[env or 0],
            place=place._replace(env=env),
        )
        return rows

    def _read_final(self, infos: dict[str, Any], ended: np.ndarray) -> list[Any]:
        value: Any = infos.get("final_obs")
        try:
            is_object = is_array(value) and value.dtype == object
            rows = list(value) if is_object else rows_of(self._batch, value)
            return [row if over else None for row, over in zip(rows, ended, strict=True)]
        except Exception:  # The layout may hold no observations.
            return [None] * self._num_envs

    def _read_numbers(self, rule: Rule, dtype_kind: str, value: Any, place: Place) -> np.ndarray:
        array = np.asarray(value)
        shape = (self._num_envs,)
        is_kept = is_array(value) and array.shape == shape and array.dtype.kind == dtype_kind
        wanted = f"{'float' if dtype_kind == 'f' else 'bool'} of shape {shape}"
        self._ledger.expect(rule, is_kept, expected=wanted, seen=_shapes(value), place=place)
        if array.size != self._num_envs or array.dtype.kind not in "biuf":
            raise StoppedError
        return array.reshape(shape)


def _shapes_of(space: gym.Space[Any]) -> str:
    inner = space.spaces if isinstance(space, spaces.Dict | spaces.Tuple) else None
    if inner is None:
        return f"{space.dtype} of shape {space.shape}"
    return f"the structure of {type(space).__name__}({inner})"


def _shapes(value: Any) -> str:
    if isinstance(value, Mapping):
        return str({key: _shapes(inner) for key, inner in value.items()})
    if isinstance(value, tuple):
        return str(tuple(map(_shapes, value)))
    if is_array(value):
        return f"{value.dtype} of shape {value.shape}"
    return f"{type(value).__name__}"
