"""The contract of `gymnasium.vector.VectorEnv`, in every mode and on both kinds of simulator.

The checker's rules, which every batch keeps, have spaces, metadata and lists of values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from gymbridge import BridgeVectorEnv
from gymbridge.errors import ClosedError
from gymbridge.testing import ScriptedSimulator
from tests.support.batches import make_batch, shared_batch
from tests.support.scripted_rows import EchoSimulator, ScriptedEnv
from tests.support.trees import assert_same

ACTIONS = [0, 1, 2, 0]


def reference() -> SyncVectorEnv:
    return SyncVectorEnv([lambda: ScriptedEnv([9], [False])] * 4)


def test_metadata__is_not_written_into_the_simulator_s() -> None:
    simulator = ScriptedSimulator([2, 3])
    batches = [BridgeVectorEnv(simulator, autoreset_mode=mode) for mode in AutoresetMode]
    assert [envs.metadata["autoreset_mode"] for envs in batches] == list(AutoresetMode)
    assert "autoreset_mode" not in simulator.metadata
    assert "autoreset_mode" not in VectorEnv.metadata


def test_close__leaves_no_attributes_to_read(scripted: str) -> None:
    """The checker and `test_fuzz.py` have the other calls."""
    envs = make_batch(scripted)
    envs.close()
    for call in (envs.call, envs.get_attr):
        with pytest.raises(ClosedError, match="is closed; build a new one"):
            call("spec")


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


def test_call__shares_the_engine_s_attributes_and_calls_its_methods() -> None:
    envs = BridgeVectorEnv(EchoSimulator([1, 2, 3, 4]))
    lengths = envs.get_attr("lengths")
    assert len(lengths) == 4
    assert all(value is lengths[0] for value in lengths)
    assert envs.call("echo", 7) == (7,) * 4
