"""What is particular to a simulator of tensors; the conformance tests have the rest of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from gymnasium import spaces

from gymbridge import BridgeVectorEnv
from gymbridge.errors import ArgumentError, EpisodeEndedError
from tests.support.batches import make_batch
from tests.support.tensor_script import TensorScript, tensor_vector_env
from tests.support.trees import assert_same

FIRST = np.array([True, False, False, False])


def play(envs: Any) -> list[Any]:
    """Return what calls of every kind return, with each environment that ended reset first."""
    returned = [envs.reset(seed=3), envs.reset(options={"reset_mask": FIRST})]
    for _ in range(8):
        returned.append(envs.step(np.ones(4, np.int64)))
        over = returned[-1][2] | returned[-1][3]
        if envs.autoreset_mode.value == "Disabled" and over.any():
            with pytest.raises(EpisodeEndedError, match=rf"\{np.flatnonzero(over).tolist()}"):
                envs.step(np.ones(4, np.int64))
            returned.append(envs.reset(options={"reset_mask": over}))
    if envs.autoreset_mode.value == "Disabled":
        returned.append(envs.step_some(np.ones(4, np.int64), FIRST))
    return returned


def test_numpy_results__come_from_tensors_that_numpy_cannot_read(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it cannot read those on a GPU."""
    wanted = play(make_batch("host", mode))

    def refuse(*_: Any) -> None:
        raise TypeError("can't convert cuda:0 device type tensor to numpy.")

    monkeypatch.setattr(torch.Tensor, "__array__", refuse)
    assert_same(play(make_batch("tensors", mode)), wanted)


def test_simulator__gets_tensors_without_a_graph() -> None:
    seen: list[Any] = []

    class Attentive(TensorScript):
        def __init__(self) -> None:
            super().__init__([2, 3])
            self.single_action_space = spaces.Box(-1, 1, (), np.float32)

        def advance(self, state: Any, actions: Any, restart: Any, freeze: Any) -> Any:
            seen.extend((actions, restart))
            return super().advance(state, actions.long(), restart, freeze)

    for arrays in ("numpy", "torch"):
        envs = BridgeVectorEnv(Attentive(), native="torch", arrays=arrays)
        envs.reset(seed=0)
        envs.step(np.ones(2, np.float32))
    envs.step(torch.ones(2, requires_grad=True))
    assert envs.device == torch.device("cpu")
    assert {(type(tensor), tensor.requires_grad) for tensor in seen} == {(torch.Tensor, False)}


def test_devices__must_be_one() -> None:
    with pytest.raises(ArgumentError, match="`device` must be one device"):
        tensor_vector_env([2], [False], device=["cpu:0", "cpu:1"])
