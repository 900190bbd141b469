"""Judges of ends of episodes, which need only one call, or two successive calls."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from gymbridge.testing.checker.driver import Call, Driver
from gymbridge.testing.checker.rules import Rule, Rules
from gymbridge.testing.checker.values import contains, fits, is_array, read

__all__ = ["LengthJudge", "judge_final_keys", "judge_next_step"]


def judge_next_step(driver: Driver, call: Call) -> None:
    """Check the steps that restart episodes with NextStep."""
    if driver.mode != AutoresetMode.NEXT_STEP or call.mask is not None:
        return
    for env, kind in enumerate(call.kinds):
        if kind:
            expect = partial(driver.expect, env=env, kind=kind)
            expect(Rules.NEXT_STEP_REWARD, "reward 0", call.rewards[env], call.rewards[env] == 0)
            seen = f"terminated={call.terminated[env]}, truncated={call.truncated[env]}"
            expect(Rules.NEXT_STEP_FLAGS, "both flags False", seen, not call.ended[env])


def judge_final_keys(driver: Driver, call: Call) -> None:
    """Check `final_obs` and `final_info`."""
    if driver.mode == AutoresetMode.SAME_STEP and call.mask is None:
        _judge_mask(driver, call, Rules.SAME_STEP_FINAL_OBS, "final_obs")
        _judge_mask(driver, call, Rules.SAME_STEP_FINAL_INFO, "final_info")
    elif driver.mode not in (None, AutoresetMode.SAME_STEP):
        keys = sorted(call.infos.keys() & {"final_obs", "final_info"})
        driver.expect(Rules.NO_FINAL_KEYS, "neither key", keys or "neither key")


def _judge_mask(driver: Driver, call: Call, rule: Rule, key: str) -> None:
    """Look whether a final key holds what it should for exactly the environments that ended."""
    mask = call.infos.get(f"_{key}", np.zeros(driver.num_envs, np.bool_))
    is_mask = is_array(mask) and mask.shape == (driver.num_envs,) and mask.dtype == np.bool_
    expected = f"`{key}` of the environments that ended: {call.ended}"
    for env, kind in enumerate(call.end_kinds):
        if not is_mask or bool(mask[env]) != bool(kind):
            # An entry of an environment that goes on belongs to no end, and to either kind.
            kind, is_kept, seen = kind or "termination", False, f"`_{key}` is {mask}"
        elif not kind:
            continue
        elif key == "final_obs":
            is_kept, seen = _judge_final(driver, env, call.final_obs[env])
        else:
            seen = call.infos.get(key)
            is_kept = isinstance(seen, dict)
        driver.expect(rule, expected, seen, is_kept, env=env, kind=kind)


def _judge_final(driver: Driver, env: int, final: Any) -> tuple[bool, Any]:
    """Return whether a final observation is one at all, and what it is."""
    space = driver.single_spaces[env]
    is_kept = final is not None and fits(space, final, is_batch=False)
    if is_kept:
        expected = f"a final observation in {space}"
        driver.expect(Rules.OBSERVATIONS_IN_SPACE, expected, final, contains(space, final), env=env)
    return is_kept, "nothing" if final is None else final


class LengthJudge:
    """Counts the steps of an environment's episodes, and compares them with its spec's limit."""

    def __init__(self, envs: Any) -> None:
        spec = read(envs, "spec")
        self._limit = spec.max_episode_steps if isinstance(spec, EnvSpec) else None
        self._lengths = np.zeros(envs.num_envs, np.int64)

    def __call__(self, driver: Driver, call: Call) -> None:
        """Look at one call."""
        limit = self._limit
        if driver.mode is None or not limit:
            return
        if call.mask is not None:
            self._lengths[call.mask] = 0
            return
        self._lengths = np.where(call.kinds != "", 0, self._lengths + 1)
        for env in np.flatnonzero(call.ended | (self._lengths >= limit)):
            length, goes_on = self._lengths[env], not call.ended[env]
            seen = f"an episode of {length} steps{' that goes on' if goes_on else ''}"
            expected = f"an end after {limit} steps at most"
            is_kept = length <= limit and not goes_on
            driver.expect(Rules.LIMIT_KEPT, expected, seen, is_kept, env=env)
            if call.end_kinds[env] == "truncation":
                expected, seen = f"an end after {limit} steps", f"an end after {length} steps"
                driver.expect(Rules.TRUNCATED_AT_LIMIT, expected, seen, env=env)
        self._lengths[call.ended] = 0
