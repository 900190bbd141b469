"""Rules about ends of episodes that need only one call, or two successive calls."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from gymbridge.testing.checker.calls import Call
from gymbridge.testing.checker.driver import IN_SPACE, Driver
from gymbridge.testing.checker.rule import Rule, extra, of_next_step, of_same_step
from gymbridge.testing.checker.values import contains, fits, is_array, read

__all__ = ["LengthJudge", "judge_final_keys", "judge_next_step"]

_MODES = "vector/vector_env.py, `AutoresetMode`; tests/vector/test_autoreset_mode.py"

NEXT_FLAGS = of_next_step("next-step-flags", "The step after an end has both flags False.", _MODES)
NEXT_REWARD = of_next_step("next-step-reward", "The step after an end has reward 0.", _MODES)
FINAL_OBS = of_same_step(
    "same-step-final-obs",
    "`final_obs` holds an observation for each environment that "
    "ended, and `_final_obs` is True exactly there.",
    f"{_MODES}, `test_same_step_final_obs`",
)
FINAL_INFO = of_same_step(
    "same-step-final-info",
    "`final_info` is a dict of the final infos, and `_final_info` is True exactly for "
    "environments that ended.",
    "vector/sync_vector_env.py, `SyncVectorEnv.step`",
)
NO_FINAL_KEYS = Rule(
    "no-final-keys",
    "Infos have no `final_obs` and no `final_info`.",
    "vector/sync_vector_env.py, `SyncVectorEnv.step`",
    modes=(AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED),
    needs="a known autoreset mode",
)
LIMIT_KEPT = Rule(
    "limit-kept",
    "No episode takes more steps than `spec.max_episode_steps`.",
    "envs/registration.py, `EnvSpec`; wrappers/common.py, `TimeLimit`",
    needs="`spec.max_episode_steps` and an episode that ends",
)
TRUNCATED_AT_LIMIT = extra(
    "truncated-at-limit",
    "If `spec.max_episode_steps` is set, only episodes of that length are truncated.",
    "other truncations are allowed: core.py, `Env.step`",
    needs="`spec.max_episode_steps` and a truncation",
)


def judge_next_step(driver: Driver, call: Call) -> None:
    """Check the steps that restart episodes with NextStep."""
    if driver.mode != AutoresetMode.NEXT_STEP or call.mask is not None:
        return
    for env, kind in enumerate(call.kinds):
        if kind:
            expect = partial(driver.expect, env=env, kind=kind)
            expect(NEXT_REWARD, "reward 0", call.rewards[env], call.rewards[env] == 0)
            seen = f"terminated={call.terminated[env]}, truncated={call.truncated[env]}"
            expect(NEXT_FLAGS, "both flags False", seen, not call.ended[env])


def judge_final_keys(driver: Driver, call: Call) -> None:
    """Check `final_obs` and `final_info`."""
    if driver.mode == AutoresetMode.SAME_STEP and call.mask is None:
        _judge_mask(driver, call, FINAL_OBS, "final_obs")
        _judge_mask(driver, call, FINAL_INFO, "final_info")
    elif driver.mode not in (None, AutoresetMode.SAME_STEP):
        keys = sorted(call.infos.keys() & {"final_obs", "final_info"})
        driver.expect(NO_FINAL_KEYS, "neither key", keys or "neither key")


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
        driver.expect(IN_SPACE, expected, final, contains(space, final), env=env)
    return is_kept, "nothing" if final is None else final


class LengthJudge:
    """Counts the steps of an environment's episodes, and compares them with its spec's limit."""

    def __init__(self, envs: Any) -> None:
        spec = read(envs, "spec")
        self._limit = spec.max_episode_steps if isinstance(spec, EnvSpec) else None
        self._lengths = np.zeros(envs.num_envs, np.int64)

    def __call__(self, driver: Driver, call: Call) -> None:
        """Look at one call."""
        if driver.mode is None or not self._limit:
            return
        if call.mask is None:
            self._lengths = np.where(call.kinds != "", 0, self._lengths + 1)
            self._judge(driver, call, self._limit)
        self._lengths[call.ended if call.mask is None else call.mask] = 0

    def _judge(self, driver: Driver, call: Call, limit: int) -> None:
        ended, lengths = call.ended, self._lengths
        late = (lengths > limit) | ((lengths == limit) & ~ended)
        if ended.any() or late.any():
            env = np.argmax(late if late.any() else ended)
            seen = f"an episode of {lengths[env]} steps{' that goes on' if late.any() else ''}"
            expected = f"an end after {limit} steps at most"
            driver.expect(LIMIT_KEPT, expected, seen, not late.any(), env=env)
        for env in np.flatnonzero(call.truncated & ~call.terminated):
            expected, seen = f"an end after {limit} steps", f"an end after {lengths[env]} steps"
            driver.expect(TRUNCATED_AT_LIMIT, expected, seen, env=env)
