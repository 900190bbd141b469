"""Resets and steps one environment, and lets judges look at every call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gymbridge.testing.checker.calls import (
    ACTIONS,
    FLAGS,
    IN_SPACE,
    OBSERVATIONS,
    OPTIONS,
    RESET_MASK,
    RESET_RETURNS,
    REWARDS,
    STEP_RETURNS,
    Call,
)
from gymbridge.testing.checker.declarations import single_observation_spaces
from gymbridge.testing.checker.policy import Policy, batch_actions
from gymbridge.testing.checker.rule import Ledger, Place, Rule, StoppedError
from gymbridge.testing.checker.values import (
    contains,
    fits,
    is_array,
    read_mode,
    rows_of,
    same,
    to_numpy,
)

__all__ = ["Driver", "Judge"]

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
        kinds: (num_envs,) texts, how the episode ended where a restart is pending, "" elsewhere.
        num_steps: Steps taken.
    """

    def __init__(
        self, envs: VectorEnv[Any, Any, Any], ledger: Ledger, judges: tuple[Judge, ...]
    ) -> None:
        self.envs, self.ledger, self._judges = envs, ledger, judges
        self.num_envs: int = envs.num_envs
        self.mode = read_mode(envs)
        single = envs.single_observation_space
        self.observation_space = batch_space(single, self.num_envs)
        self.single_spaces = single_observation_spaces(envs)
        self.last: Call | None = None
        self.kinds = [""] * self.num_envs
        self.num_steps = 0
        self._place = Place()

    def reset(
        self, seed: Any = None, mask: np.ndarray | None = None, rule: Rule | None = None
    ) -> Call:
        """Reset all environments, or those of a mask; return the call.

        An error breaks `rule`, by default `reset-returns`, or `reset-mask` with a mask.
        """
        rule = rule or (RESET_RETURNS if mask is None else RESET_MASK)
        given: dict[str, Any] = {}
        if mask is None:
            self._place = Place(seed if isinstance(seed, int) else None, 0)
            mask = np.ones(self.num_envs, np.bool_)
        else:
            given["options"] = {"reset_mask": mask.copy()}
        kinds, self.kinds = self.kinds, [""] * self.num_envs
        returned = self._call(rule, 2, partial(self.envs.reset, seed=seed, **given))
        obs, infos = values = to_numpy(returned)
        rows, final = self._read_observations(obs, rule), [None] * self.num_envs
        zeros, flags = np.zeros(self.num_envs), np.zeros(self.num_envs, np.bool_)
        results = rows, zeros, flags, flags, infos, final
        call = Call(self._place, returned, values, *results, mask, kinds)
        if given:
            wanted, seen = {"reset_mask": mask}, given["options"]
            is_kept = same(wanted, seen)
            self.expect(OPTIONS, is_kept, expected=wanted, seen=seen)
        self._judge(call)
        if given and self.ledger.is_broken(RESET_MASK):  # so that any episode may go on
            self.kinds = [""] * self.num_envs
            self._stop(f"`{RESET_MASK.id}` is broken")
        return call

    def step(self, actions: list[Any], *, as_list: bool = False, rule: Rule = STEP_RETURNS) -> Call:
        """Take one step with an action for each environment; return the call.

        With `as_list`, the environment gets the list itself. An error breaks `rule`.
        """
        self._place = self._place._replace(step=(self._place.step or 0) + 1)
        batch = actions if as_list else batch_actions(self.envs.single_action_space, actions)
        kinds, self.kinds, given = self.kinds, [""] * self.num_envs, to_numpy(batch)
        returned = self._call(rule, 5, lambda: self.envs.step(batch))
        obs, rewards, terminated, truncated, infos = values = to_numpy(returned)
        rows = self._read_observations(obs, rule)
        rewards = self._read_numbers(REWARDS, "f", rewards)
        terminated = self._read_numbers(FLAGS, "b", terminated).astype(np.bool_)
        truncated = self._read_numbers(FLAGS, "b", truncated).astype(np.bool_)
        final = self._read_final(infos, terminated | truncated)
        results = rows, rewards, terminated, truncated, infos, final
        call = Call(self._place, returned, values, *results, None, kinds)
        is_kept = same(to_numpy(batch), given)
        self.expect(ACTIONS, is_kept, expected=given, seen=batch)
        self.num_steps += 1
        return self._judge(call)

    def play(
        self,
        policy: Policy,
        num_steps: int,
        *,
        seed: int | None,
        choose: Callable[[list[Any], list[str]], list[Any]] = lambda actions, kinds: actions,
    ) -> Iterator[Call]:
        """Reset and take steps, and yield each call; with Disabled, reset ended environments.

        `choose` takes the policy's actions and `kinds`, and returns the actions to take.
        """
        yield self.reset(seed)
        for _ in range(num_steps):
            call = self.step(choose(policy(), self.kinds))
            yield call
            if self.mode == AutoresetMode.DISABLED and call.ended.any():
                yield self.reset(mask=call.ended)

    def expect(self, rule: Rule, is_kept: bool, *, env: Any = None, **seen: Any) -> bool:
        """Record whether the call that runs, or one environment in it, keeps a rule."""
        place = self._place if env is None else self._place._replace(env=int(env))
        return self.ledger.expect(rule, is_kept, place=place, **seen)

    def observe(self, obs: Any) -> list[Any]:
        """Return the observation of each environment, in numpy."""
        return rows_of(self.observation_space, to_numpy(obs))

    def settle(self, policy: Policy) -> None:
        """Step until no environment waits for its restart, so that `reset` need not clear any."""
        for _ in range(_PATIENCE):
            if not any(self.kinds):
                return
            if self.mode == AutoresetMode.DISABLED:
                self.reset(mask=np.array(self.kinds) != "")
            else:
                self.step(policy())

    def _call(self, rule: Rule, length: int, function: Callable[[], Any]) -> Any:
        wanted = f"a tuple of {length}, the last a dict"
        try:
            returned = self.ledger.require(rule, function, wanted, self._place)
        except StoppedError as error:
            self._stop_for(rule, error.__cause__)
        is_kept = (
            isinstance(returned, tuple)
            and len(returned) == length
            and isinstance(returned[-1], Mapping)
        )
        # Other rules are judged by more than this call.
        if rule in (RESET_RETURNS, STEP_RETURNS) or not is_kept:
            self.expect(rule, is_kept, expected=wanted, seen=returned)
        if not is_kept:
            self._stop_for(rule)
        return returned

    def _stop_for(self, rule: Rule, error: BaseException | None = None) -> NoReturn:
        """End the run because of a rule, which tells about other runs if every run needs it."""
        if rule in (RESET_RETURNS, STEP_RETURNS):
            self._stop(f"`{rule.id}` is broken", error)
        raise StoppedError from error

    def _stop(self, reason: str, error: BaseException | None = None) -> NoReturn:
        self.ledger.note_stop(reason)
        raise StoppedError from error

    def _read_observations(self, obs: Any, rule: Rule) -> list[Any]:
        is_kept, seen = fits(self.observation_space, obs, is_batch=True), _shapes(obs)
        expected = _shapes_of(self.observation_space)
        if rule is not RESET_MASK:
            self.expect(OBSERVATIONS, is_kept, expected=expected, seen=seen)
        elif not is_kept:  # Some adapters return the rows under the mask alone.
            self.expect(rule, False, expected=expected, seen=seen)
            self._stop(f"`{rule.id}` is broken")
        try:
            rows = rows_of(self.observation_space, obs)
            kept = [contains(*pair) for pair in zip(self.single_spaces, rows, strict=False)]
        except Exception as error:
            self._stop(f"observations cannot be compared ({error!r})", error)
        if len(rows) != self.num_envs:
            self._stop(f"observations of {len(rows)} environments")
        env = kept.index(False) if False in kept else None
        self.expect(
            IN_SPACE,
            env is None,
            expected=f"an element of {self.single_spaces[env or 0]}",
            seen=rows[env or 0],
            env=env,
        )
        return rows

    def _read_final(self, infos: dict[str, Any], ended: np.ndarray) -> list[Any]:
        value: Any = infos.get("final_obs")
        try:
            is_object = is_array(value) and value.dtype == object
            rows = list(value) if is_object else rows_of(self.observation_space, value)
            return [row if over else None for row, over in zip(rows, ended, strict=True)]
        except Exception:  # The layout may hold no observations.
            return [None] * self.num_envs

    def _read_numbers(self, rule: Rule, dtype_kind: str, value: Any) -> np.ndarray:
        array = np.asarray(value)
        shape = (self.num_envs,)
        is_kept = is_array(value) and array.shape == shape and array.dtype.kind == dtype_kind
        wanted = f"{'float' if dtype_kind == 'f' else 'bool'} of shape {shape}"
        self.expect(rule, is_kept, expected=wanted, seen=_shapes(value))
        if array.size != self.num_envs or array.dtype.kind not in "biuf":
            self._stop(f"`{rule.id}` is broken")
        return array.reshape(shape)

    def _judge(self, call: Call) -> Call:
        for judge in self._judges:
            judge(self, call)
        self.kinds, self.last = self._kinds_after(call), call
        return call

    def _kinds_after(self, call: Call) -> list[str]:
        if call.mask is not None:
            kinds = zip(call.kinds, call.mask, strict=True)
            return ["" if is_reset else kind for kind, is_reset in kinds]
        if self.mode in (None, AutoresetMode.SAME_STEP):
            return [""] * self.num_envs
        return call.end_kinds


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
