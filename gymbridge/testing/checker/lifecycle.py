"""Checks of attributes, frames, specs, pickled copies and closing."""

from __future__ import annotations

import pickle
from functools import partial
from itertools import islice
from operator import methodcaller
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from gymbridge.testing.checker.check import Check
from gymbridge.testing.checker.policy import batch_actions
from gymbridge.testing.checker.rules import Rules
from gymbridge.testing.checker.seeds import mix_seeds
from gymbridge.testing.checker.values import attempt, is_array, read, read_mode, same, to_numpy

__all__ = ["check_attributes", "check_close", "check_frames", "check_pickle", "check_spec"]

_ATTRIBUTE = "attribute_of_the_check"


def check_attributes(check: Check) -> None:
    """Set an attribute of each environment, and read it in two ways."""
    envs: Any = check.driver.envs
    values, ledger = mix_seeds(check)[0], check.ledger
    ledger.require(Rules.SET_ATTR, "no error", lambda: envs.set_attr(_ATTRIBUTE, values))
    ledger.expect(Rules.SET_ATTR, values, values)
    for rule, name in ((Rules.GET_ATTR, "get_attr"), (Rules.CALL, "call")):
        seen = attempt(methodcaller(name, _ATTRIBUTE), envs)
        is_kept = isinstance(seen, tuple) and same(seen, values)
        ledger.expect(rule, tuple(values), seen, is_kept)
    expected = f"a ValueError for {len(values) + 1} values"
    set_more = partial(envs.set_attr, _ATTRIBUTE, [*values, 0])
    ledger.expect_error(Rules.SET_ATTR, ValueError, expected, set_more)


def check_frames(check: Check) -> None:
    """Repeat the recorded run, and draw the environments after each call."""
    driver, ledger = check.driver, check.ledger
    if read(driver.envs, "render_mode") != "rgb_array":
        return
    calls, first, expected = [], None, f"a tuple of {check.num_envs} frames"
    for call in islice(check.rerun(driver), 11):
        calls.append(call)
        frames = ledger.require(Rules.RENDER, expected, driver.envs.render, call.place)
        is_tuple = isinstance(frames, tuple) and len(frames) == check.num_envs
        is_kept = is_tuple and all(map(_is_frame, frames))
        ledger.expect(Rules.RENDER, expected, frames, is_kept, place=call.place)
        first = first or (frames, to_numpy(frames))
    is_kept = first is None or same(to_numpy(first[0]), first[1])
    ledger.expect(Rules.OWNERSHIP, "no change", "no change" if is_kept else "frames changed")
    if not ledger.is_broken(Rules.SEED_REPEATS):
        check.expect_same(Rules.RENDER_PURE, calls, check.record)


def _is_frame(frame: Any) -> bool:
    return is_array(frame) and np.ndim(frame) == 3 and frame.shape[2] == 3 and frame.dtype == "u1"


def check_spec(check: Check) -> None:
    """Build the environment again from its spec, which does not list vector wrappers."""
    envs: Any = check.driver.envs.unwrapped
    spec = read(envs, "spec")
    if not isinstance(spec, EnvSpec):
        return
    make = partial(gym.make_vec, spec, num_envs=check.num_envs)
    again = check.ledger.require(Rules.SPEC, spec, make)
    names = ("num_envs", "observation_space", "action_space", "render_mode", "spec")
    unlike = [name for name in names if not same(read(again, name), read(envs, name))]
    unlike += [] if read_mode(again) == read_mode(envs) else ["autoreset_mode"]
    attempt(again.close)
    seen = f"another {unlike[0]}" if unlike else "an equal environment"
    check.ledger.expect(Rules.SPEC, "an equal environment", seen)


def check_pickle(check: Check) -> None:
    """Repeat the first steps of the recorded run in a pickled copy."""
    ledger, envs = check.ledger, check.driver.envs
    copy = ledger.require(Rules.PICKLE, "a copy", lambda: pickle.loads(pickle.dumps(envs)))
    try:
        if not ledger.is_broken(Rules.SEED_REPEATS):
            # A copy may lack attributes.
            other = ledger.require(Rules.PICKLE, "a copy", lambda: check.drive(copy))
            check.expect_same(Rules.PICKLE, check.replay(other, 20), check.record)
    finally:
        attempt(lambda: copy.close())


def check_close(check: Check) -> None:
    """Close the environment twice, and try to use it."""
    envs, seen = check.driver.envs, ""
    actions = batch_actions(envs.single_action_space, check.actions_of(1))
    try:
        envs.close()
        seen = f"`closed` is {getattr(envs, 'closed', None)!r}"
        envs.close()
    except Exception as error:
        seen = f"{seen} {error!r}"
    check.ledger.expect(Rules.CLOSE, "`closed` is True", seen)
    for name, function in (("step", partial(envs.step, actions)), ("reset", envs.reset)):
        expected = f"an error of `{name}`"
        check.ledger.expect_error(Rules.CLOSED_REFUSED, Exception, expected, function)
