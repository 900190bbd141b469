"""The rule of the values in `final_obs`, which a run with NEXT_STEP returns as observations.

The recorded run is repeated in an environment with NEXT_STEP. There a restart takes a step of its
own, so each environment is compared by its own clock, and only as long as both runs are equal up to
the step that ends an episode.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode

from gymbridge.testing.checker.calls import Call
from gymbridge.testing.checker.check import Check
from gymbridge.testing.checker.driver import Driver
from gymbridge.testing.checker.replays import INDEPENDENT_EPISODES
from gymbridge.testing.checker.rule import Rule, StoppedError
from gymbridge.testing.checker.seeds import REPEATS
from gymbridge.testing.checker.values import read, same

__all__ = ["check_final_values"]

_NEXT, _SAME = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP

FINAL_VALUE = Rule(
    "same-step-final-value",
    "`final_obs` holds the observation with which NEXT_STEP ends the same episode.",
    "vector/vector_env.py, `AutoresetMode`; tests/vector/test_autoreset_mode.py, "
    "`test_same_step_final_obs`",
    of_ends=True,
    modes=(_SAME,),
)


def check_final_values(check: Check, make_env: Callable[..., Any]) -> None:
    """Repeat the recorded run in an environment with NEXT_STEP, and compare how episodes end."""
    ledger = check.ledger
    if check.driver.mode != _SAME or any(map(ledger.is_broken, (REPEATS, INDEPENDENT_EPISODES))):
        return
    envs = None
    try:
        envs = _make_reference(check, make_env)
        if envs is None:
            obstacle = "`make_env` takes no `autoreset_mode`, and there is no spec to build from."
        else:
            _compare(check, check.drive_unjudged(envs))
            obstacle = "With NEXT_STEP, no episode was the same until its end."
    except StoppedError as error:
        obstacle = f"The run with NEXT_STEP failed: {error.__cause__!r}."
    except Exception as error:  # A factory may know no other mode.
        obstacle = f"No environment with NEXT_STEP could be built: {error!r}."
    ledger.note_obstacle(FINAL_VALUE, obstacle)
    with contextlib.suppress(Exception):
        envs.close()  # type: ignore[union-attr]


def _make_reference(check: Check, make_env: Callable[..., Any]) -> Any:
    """Return an environment with NEXT_STEP from the factory or the spec; None if neither can."""
    if "autoreset_mode" in inspect.signature(make_env).parameters:
        return make_env(autoreset_mode=_NEXT)
    envs: Any = check.driver.envs
    if envs is not envs.unwrapped or not isinstance(read(envs, "spec"), EnvSpec):
        # A spec does not list wrappers of vectors, so the batch cannot be built from it.
        return None
    spec = copy.deepcopy(envs.spec)
    spec.kwargs.get("vector_kwargs", spec.kwargs)["autoreset_mode"] = _NEXT
    return gym.make_vec(spec, num_envs=check.num_envs)


def _compare(check: Check, driver: Driver) -> None:
    """Play the recorded actions with NEXT_STEP, and compare each environment while it is alike."""
    # Per environment, the recorded call to compare with.
    indices = dict.fromkeys(range(check.num_envs), 0)
    draws, actions = check.policy().draws, check.policy()()
    call = driver.reset(check.seed)
    while driver.mode == _NEXT:
        indices = {env: at for env, at in indices.items() if _is_alike(check, call, env, at)}
        if not indices:
            return
        for env in indices:
            if not driver.kinds[env]:
                actions[env] = draws[env]()
                indices[env] += 1
        call = driver.step(actions)


def _is_alike(check: Check, call: Call, env: int, index: int) -> bool:
    """Compare a call with a recorded one; return whether the environment's next can be compared."""
    if index >= len(check.record):
        return False
    recorded, kind = check.record[index], call.end_kinds[env]
    # Other calls begin the episode that the recorded call began, too.
    if not call.kinds[env]:
        is_same = same(call.rewards[env], recorded.rewards[env])
        if kind != recorded.end_kinds[env] or not is_same:
            return False
    obs, final_obs = call.observations[env], recorded.final_obs[env]
    # Equal but for rounding is not enough, since the difference may grow.
    if not kind:
        return data_equivalence(obs, recorded.observations[env], exact=True)
    return final_obs is None or check.ledger.expect(
        FINAL_VALUE,
        same(final_obs, obs),
        expected=obs,
        seen=final_obs,
        place=recorded.place._replace(env=env),
        kind=kind,
    )
