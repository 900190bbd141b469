"""A bad call raises before anything changes: afterwards the run is that of an untouched twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from batches import make_batch, play, shared_batch
from gymnasium.vector import AutoresetMode, VectorEnv
from trees import assert_same

from gymbridge.errors import ActionError, ArgumentError, ArgumentTypeError, GymbridgeError

Call = Callable[[VectorEnv], Any]


def reset_under(mask: Any, **kwargs: Any) -> Call:
    return lambda envs: envs.reset(options={"reset_mask": mask}, **kwargs)


BAD_CALLS: dict[str, tuple[Call, type[Exception], str]] = {
    "action out of range": (
        lambda envs: envs.step([0, 1, 2, 3]),
        ActionError,
        r"`actions` must lie in Discrete\(3\)",
    ),
    "too few actions": (
        lambda envs: envs.step([0, 1, 2]),
        ActionError,
        r"`actions` must have shape \(4,\).*got \(3,\)",
    ),
    "float actions": (
        lambda envs: envs.step(np.zeros(4)),
        ArgumentTypeError,
        r"`actions` must be integers for Discrete\(3\), got float64",
    ),
    "negative seed": (lambda envs: envs.reset(seed=-1), ArgumentError, "`seed` must be 0 or more"),
    "float among seeds": (
        lambda envs: envs.reset(seed=[1, 2, 3, 4.0]),
        ArgumentTypeError,
        "`seed` must hold ints and Nones, got 4.0",
    ),
    "unknown option": (
        lambda envs: envs.reset(options={"reset_masks": np.ones(4, np.bool_)}),
        ArgumentError,
        "unknown key 'reset_masks'; did you mean 'reset_mask'",
    ),
    "mask of ints": (reset_under(np.ones(4, int)), ArgumentTypeError, "must have `dtype=np.bool_`"),
    "bad seed with a good mask": (
        reset_under(np.ones(4, np.bool_), seed=[-1, 0, 0, 0]),
        ArgumentError,
        "`seed` must be 0 or more",
    ),
    "built-in attribute": (
        lambda envs: envs.set_attr("action_space", 1),
        ArgumentError,
        "`action_space` belongs to the simulation",
    ),
}
"""One of each argument and rule; `test_fuzz.py` has those of every type, shape and value."""

GYMNASIUM_TYPES = {ActionError: ValueError, ArgumentError: ValueError, ArgumentTypeError: TypeError}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_call__raises_and_changes_nothing(scripted: str, mode: str, name: str) -> None:
    call, error, message = BAD_CALLS[name]
    envs = shared_batch(scripted, mode)

    def call_badly(_: Any) -> None:
        seeds = envs.np_random_seed
        with pytest.raises(error, match=message) as caught:
            call(envs)
        assert isinstance(caught.value, GymbridgeError)
        assert isinstance(caught.value, GYMNASIUM_TYPES[error])
        assert envs.np_random_seed == seeds

    untouched = play(envs, 8)
    if mode == "Disabled" and "action" in name:
        # A call between an end and the reset of its row; both errors would be right there.
        call_badly = only_if_running(envs, call_badly)
    assert_same(play(envs, 8, touch=call_badly), untouched)


def only_if_running(envs: VectorEnv, call: Callable[[Any], None]) -> Callable[[Any], None]:
    def run(passed: Any) -> None:
        _, *flags, _ = passed[0]
        if not flags or not (flags[1] | flags[2]).any():
            call(passed)

    return run


@pytest.mark.parametrize(
    ("option", "value", "error", "message"),
    [
        ("mode", "nextstep", ArgumentError, "`autoreset_mode` must be an AutoresetMode or one of"),
        ("limit", 0, ArgumentError, "`max_episode_steps` must be at least 1, None for the task's"),
        ("limit", 2.5, ArgumentTypeError, "`max_episode_steps` must be an int, got 2.5"),
    ],
)
def test_constructor__refuses(
    scripted: str, option: str, value: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make_batch(scripted, **{option: value})
    assert make_batch(scripted).autoreset_mode is AutoresetMode.NEXT_STEP
