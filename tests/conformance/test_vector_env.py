"""The contract of `gymnasium.vector.VectorEnv`, in every mode and on both kinds of simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from gymbridge import BridgeVectorEnv
from gymbridge.errors import ArgumentError, ClosedError
from gymbridge.testing import ScriptedEnv, ScriptedSimulator
from tests.support.batches import make_batch, shared_batch
from tests.support.scripted_rows import EchoSimulator
from tests.support.trees import assert_same

ACTIONS = [0, 1, 2, 0]


def reference() -> SyncVectorEnv:
    return SyncVectorEnv([lambda: ScriptedEnv(lambda *_: (9, False))] * 4)


def test_spaces__are_the_single_ones_batched(scripted: str) -> None:
    envs = make_batch(scripted)
    assert isinstance(envs, VectorEnv)
    assert envs.num_envs == 4
    assert envs.observation_space == batch_space(envs.single_observation_space, 4)
    assert envs.action_space == batch_space(envs.single_action_space, 4)
    expected = reference()
    assert envs.single_observation_space == expected.single_observation_space
    assert envs.single_action_space == expected.single_action_space


def test_metadata__has_the_mode_as_enum_in_a_dict_of_its_own(scripted: str, mode: str) -> None:
    for given in (mode, AutoresetMode(mode)):
        envs, other = make_batch(scripted, given), make_batch(scripted)
        assert envs.metadata["autoreset_mode"] is envs.autoreset_mode is AutoresetMode(mode)
        assert other.autoreset_mode is reference().autoreset_mode
        envs.metadata["mine"] = 7
        assert "mine" not in other.metadata
        assert "mine" not in make_batch(scripted).metadata
    assert "autoreset_mode" not in VectorEnv.metadata


def test_metadata__is_not_written_into_the_simulator_s() -> None:
    simulator = ScriptedSimulator([2, 3])
    batches = [BridgeVectorEnv(simulator, autoreset_mode=mode) for mode in AutoresetMode]
    assert [envs.metadata["autoreset_mode"] for envs in batches] == list(AutoresetMode)
    assert "autoreset_mode" not in simulator.metadata


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("mode", "nextstep", "`autoreset_mode` must be an AutoresetMode or one of"),
        ("limit", 0, "`max_episode_steps` must be at least 1, None for the task's"),
    ],
)
def test_constructor__refuses(scripted: str, option: str, value: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make_batch(scripted, **{option: value})


CALLS = {
    "reset": lambda envs: envs.reset(),
    "partial reset": lambda envs: envs.reset(options={"reset_mask": np.arange(4) > 0}),
    "step": lambda envs: envs.step(ACTIONS),
    "call": lambda envs: envs.call("spec"),
    "get_attr": lambda envs: envs.get_attr("spec"),
    "set_attr": lambda envs: envs.set_attr("note", 1),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize("is_running", [False, True])
def test_close__lets_nothing_more_happen(scripted: str, call: Any, is_running: bool) -> None:
    envs = make_batch(scripted)
    if is_running:
        envs.reset(seed=0)
    envs.close()
    envs.close()
    assert envs.closed is True
    with pytest.raises(ClosedError, match="is closed; build a new one"):
        call(envs)


def test_first_reset__under_a_mask_of_all_is_a_full_one(scripted: str, mode: str) -> None:
    """`SyncVectorEnv` resets every environment by it, too."""
    for seed in (3, None, [5, 9, 2, 3]):
        envs, twin = make_batch(scripted, mode), shared_batch(scripted, mode)
        options = {"reset_mask": np.ones(4, np.bool_)}
        returned = envs.reset(seed=seed, options=options)
        assert_same(returned, twin.reset(seed=list(envs.np_random_seed)))
        assert_same(envs.step(ACTIONS), twin.step(ACTIONS))
    expected = reference().reset(seed=3, options={"reset_mask": np.ones(4, np.bool_)})
    if scripted == "host":
        found = make_batch(scripted).reset(seed=3, options={"reset_mask": np.ones(4, np.bool_)})
        assert_same(found, expected)


def test_get_attr__is_one_value_per_environment(scripted: str) -> None:
    envs, expected = make_batch(scripted), reference()
    for name in ("render_mode", "spec", "action_space", "observation_space"):
        assert envs.get_attr(name) == expected.get_attr(name), name
    envs.reset(seed=5)
    expected.reset(seed=5)
    assert envs.get_attr("np_random_seed") == expected.get_attr("np_random_seed") == (5, 6, 7, 8)
    for batch in (envs, expected):
        with pytest.raises(AttributeError, match="wisdom"):
            batch.get_attr("wisdom")


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (7, (7, 7, 7, 7)),
        ([1, 2, 3, 4], (1, 2, 3, 4)),
        ((1, None, 3, "x"), (1, None, 3, "x")),
        ("word", ("word",) * 4),
        (len, (5,) * 4),
    ],
)
def test_set_attr__gives_what_call_finds(scripted: str, values: Any, found: Any) -> None:
    for envs in (make_batch(scripted), reference()):
        envs.set_attr("note", values)
        assert envs.call("note", *([[0] * 5] if callable(values) else [])) == found


@pytest.mark.parametrize("values", [[1, 2], (1, 2, 3, 4, 5), []])
def test_set_attr__refuses_another_number_of_values(scripted: str, values: Any) -> None:
    for envs in (make_batch(scripted), reference()):
        envs.set_attr("note", 0)
        with pytest.raises(ValueError, match=f"Got `{len(values)}` values for 4 environments"):
            envs.set_attr("note", values)
        assert envs.get_attr("note") == (0, 0, 0, 0)


@pytest.mark.parametrize("name", ["action_space", "np_random_seed", "lengths"])
def test_set_attr__refuses_what_is_built_in(scripted: str, name: str) -> None:
    envs = make_batch(scripted)
    with pytest.raises(ArgumentError, match=f"`{name}` .*is built"):
        envs.set_attr(name, 1)


def test_call__shares_the_engine_s_attributes_and_calls_its_methods() -> None:
    envs = BridgeVectorEnv(EchoSimulator([1, 2, 3, 4]))
    lengths = envs.get_attr("lengths")
    assert len(lengths) == 4
    assert all(value is lengths[0] for value in lengths)
    assert envs.call("echo", 7) == (7,) * 4
