"""Resets and steps one environment, reads what it returns, and lets judges look at every call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, iterate

from gymbridge.testing.checker.declarations import single_observation_spaces
from gymbridge.testing.checker.ledger import Ledger, Place, StoppedError
from gymbridge.testing.checker.policy import batch_actions, draw_actions
from gymbridge.testing.checker.rules import Rule, Rules
from gymbridge.testing.checker.values import attempt, contains, fits, is_array, read_mode, to_numpy

__all__ = ["Call", "Driver", "Judge"]


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


Judge = Callable[["Driver", Call], None]
"""Checks one call, with the one before it in `Driver.last`, and records the rules it reached."""

_PATIENCE = 20
"""Steps among which there should be one that ends no episode."""


class Driver:
    """An environment in a check.

    Every call is looked at by the `judges`, in this order.

    Attributes:
        mode: Its autoreset mode, or None if it declares none.
        single_spaces: Space of a single observation, for each environment.
        observation_space: Space of a batch of observations.
        last: The last call, or None.
        kinds: (num_envs,) str, how the episode ended where a restart is pending, "" elsewhere.
    """

    def __init__(
        self, envs: VectorEnv[Any, Any, Any], ledger: Ledger, judges: tuple[Judge, ...]
    ) -> None:
        self.envs: Any = envs  # so that calls may break the types which Gymnasium declares
        self.ledger, self._judges = ledger, judges
        self.num_envs: int = envs.num_envs
        self.mode = read_mode(envs)
        self.observation_space = batch_space(envs.single_observation_space, self.num_envs)
        self.single_spaces = single_observation_spaces(envs)
        self.last: Call | None = None
        self.kinds = np.full(self.num_envs, "")
        self._place = Place()

    def reset(
        self, seed: Any = None, mask: np.ndarray | None = None, rule: Rule | None = None
    ) -> Call:
        """Reset all environments, or those of a mask; return the call.

        An error breaks `rule`, by default `reset-returns`, or `reset-mask` with a mask.
        """
        rule = rule or (Rules.RESET_RETURNS if mask is None else Rules.RESET_MASK)
        given: dict[str, Any] = {}
        if mask is None:
            self._place = Place(seed if isinstance(seed, int) else None, 0)
            mask = np.ones(self.num_envs, np.bool_)
        else:
            given["options"] = {"reset_mask": mask.copy()}
        call = self._call(rule, 2, partial(self.envs.reset, seed=seed, **given), mask)
        if given:
            self.expect(Rules.OPTIONS_UNCHANGED, {"reset_mask": mask}, given["options"])
        self._judge(call)
        if given and self.ledger.is_broken(Rules.RESET_MASK):  # Any episode may go on.
            self.kinds = np.full(self.num_envs, "")
            raise StoppedError(f"`{Rules.RESET_MASK.id}` is broken")
        return call

    def step(
        self, actions: Sequence[Any], *, as_list: bool = False, rule: Rule = Rules.STEP_RETURNS
    ) -> Call:
        """Take one step with an action for each environment; return the call.

        With `as_list`, the environment gets a list of them. An error breaks `rule`.
        """
        self._place = self._place._replace(step=(self._place.step or 0) + 1)
        batch = [*actions] if as_list else batch_actions(self.envs.single_action_space, actions)
        given = to_numpy(batch)
        call = self._call(rule, 5, lambda: self.envs.step(batch))
        self.expect(Rules.ACTIONS_UNCHANGED, given, to_numpy(batch))
        self._judge(call)
        return call

    def play(
        self, policy: Iterable[Sequence[Any]], seed: Any = None, rule: Rule | None = None
    ) -> Iterator[Call]:
        """Reset and step with the actions of a policy, and yield each call.

        With Disabled, ended environments are reset after a step. An error of the first reset breaks
        `rule`, by default `reset-returns`.
        """
        self.settle()
        yield self.reset(seed, rule=rule)
        for actions in policy:
            call = self.step(actions)
            yield call
            if self.mode == AutoresetMode.DISABLED and call.ended.any():
                yield self.reset(mask=call.ended)

    def expect(self, rule: Rule, *found: Any, env: Any = None, kind: str = "") -> bool:
        """Record whether this call, or one environment in it, keeps a rule; see `Ledger.expect`."""
        place = self._place if env is None else self._place._replace(env=int(env))
        return self.ledger.expect(rule, *found, place=place, kind=kind)

    def settle(self) -> None:
        """Step until no environment waits for its restart, so that `reset` need not clear any."""
        space = self.envs.single_action_space
        policy = zip(*(draw_actions(space, env) for env in range(self.num_envs)), strict=True)
        for _ in range(_PATIENCE):
            if not any(self.kinds):
                return
            if self.mode == AutoresetMode.DISABLED:
                self.reset(mask=self.kinds != "")
            else:
                self.step(next(policy))

    def _call(
        self, rule: Rule, length: int, function: Callable[[], Any], mask: np.ndarray | None = None
    ) -> Call:
        """Call the environment, and read the tuple that it returns."""
        wanted = f"a tuple of {length}, the last a dict"
        # Every run needs the vital rules. Others are judged by more than this call.
        is_vital = rule in (Rules.RESET_RETURNS, Rules.STEP_RETURNS)
        reason = f"`{rule.id}` is broken" if is_vital else ""
        kinds, self.kinds = self.kinds, np.full(self.num_envs, "")
        returned = attempt(function)
        is_tuple = isinstance(returned, tuple) and len(returned) == length
        is_kept = is_tuple and isinstance(returned[-1], Mapping)
        if is_vital or not is_kept:
            self.expect(rule, wanted, returned, is_kept)
        if not is_kept:
            raise StoppedError(reason) from (returned if isinstance(returned, Exception) else None)
        values = to_numpy(returned)
        rows, infos = self._read_observations(values[0], rule), values[-1]
        rewards, *flags = np.zeros((3, self.num_envs))
        if mask is None:
            rewards = self._read_numbers(Rules.REWARDS, "float", values[1])
            flags = [self._read_numbers(Rules.FLAGS, "bool", value) for value in values[2:4]]
        terminated, truncated = (flag.astype(np.bool_) for flag in flags)
        final = self._read_final(infos, terminated | truncated)
        results = rows, rewards, terminated, truncated, infos, final
        return Call(self._place, returned, values, *results, mask, kinds)

    def _read_observations(self, obs: Any, rule: Rule) -> list[Any]:
        is_kept = fits(self.observation_space, obs, is_batch=True)
        shapes = _shapes(self.observation_space), _shapes(obs)
        # Some adapters return the rows under the mask alone.
        is_short = rule is Rules.RESET_MASK and not is_kept
        self.expect(rule if is_short else Rules.OBSERVATIONS, *shapes, is_kept)
        if is_short:
            raise StoppedError(f"`{rule.id}` is broken")
        try:
            rows = [*iterate(self.observation_space, obs)]
            kept = [contains(*pair) for pair in zip(self.single_spaces, rows, strict=False)]
        except Exception as error:
            raise StoppedError(f"observations cannot be compared ({error!r})") from error
        if len(rows) != self.num_envs:
            raise StoppedError(f"observations of {len(rows)} environments")
        env = kept.index(False) if False in kept else 0
        expected = f"an element of {self.single_spaces[env]}"
        self.expect(Rules.OBSERVATIONS_IN_SPACE, expected, rows[env], kept[env], env=env)
        return rows

    def _read_final(self, infos: dict[str, Any], ended: np.ndarray) -> list[Any]:
        value: Any = infos.get("final_obs")
        try:
            is_object = is_array(value) and value.dtype == object
            rows = list(value) if is_object else iterate(self.observation_space, value)
            return [row if over else None for row, over in zip(rows, ended, strict=True)]
        except Exception:  # The layout may hold no observations.
            return [None] * self.num_envs

    def _read_numbers(self, rule: Rule, kind: str, value: Any) -> np.ndarray:
        array, shape = np.asarray(value), (self.num_envs,)
        is_kept = is_array(value) and array.shape == shape and array.dtype.name.startswith(kind)
        self.expect(rule, f"{kind} of shape {shape}", _shapes(value), is_kept)
        if array.size != self.num_envs or array.dtype.kind not in "biuf":
            raise StoppedError(f"`{rule.id}` is broken")
        return array.reshape(shape)

    def _judge(self, call: Call) -> None:
        for judge in self._judges:
            judge(self, call)
        if call.mask is not None:
            self.kinds = np.where(call.mask, "", call.kinds)
        elif self.mode not in (None, AutoresetMode.SAME_STEP):
            self.kinds = call.end_kinds
        self.last = call


def _shapes(value: Any) -> str:
    """Return the dtypes and shapes of a value, or of those in a space, in their structure."""
    if isinstance(value, Mapping):
        return str({key: _shapes(inner) for key, inner in value.items()})
    if isinstance(value, tuple | spaces.Tuple):
        return str(tuple(map(_shapes, value)))
    if is_array(value) or isinstance(value, gym.Space):
        return f"{value.dtype} of shape {value.shape}"
    return f"{type(value).__name__}"
