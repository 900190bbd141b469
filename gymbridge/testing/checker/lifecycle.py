"""Rules about attributes, frames, specs, pickled copies and closing."""

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
from gymbridge.testing.checker.results import OWNERSHIP
from gymbridge.testing.checker.rule import Rule, extra
from gymbridge.testing.checker.seeds import REPEATS, mix_seeds
from gymbridge.testing.checker.values import attempt, is_array, read, read_mode, same, to_numpy

__all__ = ["check_attributes", "check_close", "check_frames", "check_pickle", "check_spec"]

_SYNC = "vector/sync_vector_env.py, `SyncVectorEnv`"
_reader = partial(extra, source=_SYNC, needs="`set_attr`")

CALL = _reader("call", "`call(name)` returns a tuple with a value of each environment.")
GET_ATTR = _reader("get-attr", "`get_attr(name)` returns a tuple with a value of each environment.")
SET_ATTR = extra(
    "set-attr",
    "`set_attr(name, values)` gives each environment its value; a list of another length is a "
    "`ValueError`.",
    _SYNC,
)
RENDER = Rule(
    "render",
    '`render` with "rgb_array" returns a tuple of num_envs frames, (height, width, 3) uint8.',
    "vector/vector_env.py, `VectorEnv.render`; wrappers/vector/rendering.py",
    needs='`render_mode="rgb_array"`',
)
RENDER_PURE = extra(
    "render-pure",
    "`render` does not change the run.",
    "not stated by Gymnasium",
    needs='`render_mode="rgb_array"` and `seed-repeats` to hold',
)
SPEC = Rule(
    "spec",
    "`gymnasium.make_vec(spec)` builds an environment with the same size, spaces, mode and spec.",
    "tests/envs/registration/test_make_vec.py, `test_make_vec_with_spec`",
    needs="a `spec`",
)
PICKLE = extra(
    "pickle",
    "A pickled copy runs as the original does.",
    "not stated",
    needs="`seed-repeats` to hold",
)
CLOSE = Rule(
    "close",
    "`close` sets `closed`, and a second `close` is not an error.",
    "vector/vector_env.py, `VectorEnv.close`",
)
CLOSED_REFUSED = extra(
    "closed-refused",
    "`reset` and `step` after `close` are errors.",
    "vector/async_vector_env.py, `AsyncVectorEnv`",
)

_ATTRIBUTE = "attribute_of_the_check"


def check_attributes(check: Check) -> None:
    """Set an attribute of each environment, and read it in two ways."""
    envs: Any = check.driver.envs
    values, ledger = mix_seeds(check)[0], check.ledger
    ledger.require(SET_ATTR, "no error", lambda: envs.set_attr(_ATTRIBUTE, values))
    ledger.expect(SET_ATTR, values, values)
    for rule, name in ((GET_ATTR, "get_attr"), (CALL, "call")):
        seen = attempt(methodcaller(name, _ATTRIBUTE), envs)
        is_kept = isinstance(seen, tuple) and same(seen, values)
        ledger.expect(rule, tuple(values), seen, is_kept)
    expected, longer = f"a ValueError for {len(values) + 1} values", [*values, 0]
    ledger.expect_error(SET_ATTR, ValueError, expected, envs.set_attr, _ATTRIBUTE, longer)


def check_frames(check: Check) -> None:
    """Repeat the recorded run, and draw the environments after each call."""
    driver, ledger = check.driver, check.ledger
    if read(driver.envs, "render_mode") != "rgb_array":
        return
    calls, first, expected = [], None, f"a tuple of {check.num_envs} frames"
    for call in islice(check.rerun(driver), 11):
        calls.append(call)
        frames = ledger.require(RENDER, expected, driver.envs.render, call.place)
        is_kept = isinstance(frames, tuple) and len(frames) == check.num_envs
        is_kept = is_kept and all(map(_is_frame, frames))
        ledger.expect(RENDER, expected, frames, is_kept, place=call.place)
        first = first or (frames, to_numpy(frames))
    is_kept = first is None or same(to_numpy(first[0]), first[1])
    ledger.expect(OWNERSHIP, "no change", "no change" if is_kept else "frames changed")
    if not ledger.is_broken(REPEATS):
        check.expect_same(RENDER_PURE, calls, check.record)


def _is_frame(frame: Any) -> bool:
    return is_array(frame) and np.ndim(frame) == 3 and frame.shape[2] == 3 and frame.dtype == "u1"


def check_spec(check: Check) -> None:
    """Build the environment again from its spec, which does not list vector wrappers."""
    envs: Any = check.driver.envs.unwrapped
    spec = read(envs, "spec")
    if not isinstance(spec, EnvSpec):
        return
    again = check.ledger.require(SPEC, spec, lambda: gym.make_vec(spec, num_envs=check.num_envs))
    names = ("num_envs", "observation_space", "action_space", "render_mode", "spec")
    unlike = [name for name in names if not same(read(again, name), read(envs, name))]
    unlike += [] if read_mode(again) == read_mode(envs) else ["autoreset_mode"]
    attempt(again.close)
    seen = f"another {unlike[0]}" if unlike else "an equal environment"
    check.ledger.expect(SPEC, "an equal environment", seen)


def check_pickle(check: Check) -> None:
    """Repeat the first steps of the recorded run in a pickled copy."""
    ledger, envs = check.ledger, check.driver.envs
    copy = ledger.require(PICKLE, "a copy", lambda: pickle.loads(pickle.dumps(envs)))
    try:
        if not ledger.is_broken(REPEATS):
            # A copy may lack attributes.
            other = ledger.require(PICKLE, "a copy", lambda: check.drive(copy))
            check.expect_same(PICKLE, check.replay(other, 20), check.record)
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
    check.ledger.expect(CLOSE, "`closed` is True", seen)
    for name, arguments in (("step", (actions,)), ("reset", ())):
        function, expected = getattr(envs, name), f"an error of `{name}`"
        check.ledger.expect_error(CLOSED_REFUSED, Exception, expected, function, *arguments)
