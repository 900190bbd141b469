"""numpy actions in batches of tensors and jax arrays: `envs.step(envs.action_space.sample())`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from tensors import leaves, shared_batch, to_kind, to_numpy

from gymbridge.core.actions import make_action_reader
from gymbridge.core.arrays import make_adapter
from gymbridge.core.requests import Device
from gymbridge.errors import ActionError, ArgumentTypeError

NUM_ENVS = 4
NATIVES = ("numpy", "jax")


def read(space: Any, arrays: str, actions: Any, native: str) -> Any:
    adapter = make_adapter(native, arrays, Device("cpu", 0))
    reader = make_action_reader(adapter.to_space(space), (NUM_ENVS,), adapter.make_action_reader)
    return reader(actions)


@pytest.mark.parametrize("simulator", ["host", "brax", "envpool"])
def test_sample__is_taken_as_an_array_of_the_kind_is(
    simulator: str, arrays: str, mode: str
) -> None:
    envs = shared_batch(simulator, arrays, mode)
    envs.action_space.seed(0)
    samples = [envs.action_space.sample() for _ in range(8)]
    runs = []
    for convert in (lambda sample: sample, lambda sample: to_kind(sample, arrays)):
        envs.reset(seed=0)
        runs.append([])
        for sample in samples[: 8 if mode != "Disabled" else 1]:
            shown = envs.step(convert(sample))
            assert {type(leaf) for leaf in leaves(shown)} == {type(shown[0])}
            runs[-1].append(to_numpy(shown[:2]))
    for found, wanted in zip(*runs, strict=True):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("native", NATIVES)
@pytest.mark.parametrize(
    ("space", "given", "wanted"),
    [
        (spaces.Discrete(3), np.array([-5, 0, 2, 9]), [0, 0, 2, 2]),
        (spaces.Discrete(3), np.array([0, 2**63, 2**64 - 1, 1], np.uint64), [0, 2, 2, 1]),
        (spaces.Discrete(3), np.array([0, 1, 2, -(2**40)], ">i8"), [0, 1, 2, 0]),
        (spaces.Discrete(3), np.arange(8)[::-2], [2, 2, 2, 1]),
        (spaces.Discrete(3), np.array([True, False] * 2), [1, 0, 1, 0]),
        (spaces.Discrete(3, start=5), np.array([0, 5, 7, 9], np.int8), [5, 5, 7, 7]),
        (spaces.MultiDiscrete([2, 3]), np.array([[5, 5], [0, -1]] * 2), [[1, 2], [0, 0]] * 2),
        (
            spaces.Box(0, 200, (1,), np.uint8),
            np.array([[-1], [300], [7], [0]]),
            [[0], [200], [7], [0]],
        ),
        (
            spaces.Box(0, 9, (1,), np.uint64),
            np.array([[-1], [300], [7], [0]]),
            [[0], [9], [7], [0]],
        ),
        (
            spaces.Box(-1, 1, (1,)),
            np.array([[7.0], [-7], [0.5], [0]], ">f8"),
            [[7], [-7], [0.5], [0]],
        ),
        (spaces.Box(-1, 1, (1,)), np.ones((4, 1), np.int64), [[1]] * 4),
    ],
)
def test_values__are_clipped_where_they_are_discrete(
    space: Any, given: Any, wanted: Any, arrays: str, native: str
) -> None:
    given.flags.writeable = False
    found = np.asarray(read(space, arrays, given, native))
    assert found.tolist() == wanted
    assert found.dtype.isnative


@pytest.mark.parametrize("native", NATIVES)
def test_dict__may_mix_kinds(arrays: str, native: str) -> None:
    space = spaces.Dict(move=spaces.Discrete(3), aim=spaces.Dict(at=spaces.Box(-1, 1, (2,))))
    at = np.ones((4, 2), np.float32)
    found = read(space, arrays, {"move": np.full(4, 9), "aim": {"at": at}}, native)
    assert np.asarray(found["move"]).tolist() == [2] * 4
    mixed = {"move": to_kind(np.full(4, 9), arrays), "aim": {"at": at}}
    found = read(space, arrays, mixed, native)
    assert np.asarray(found["aim"]["at"]).tolist() == at.tolist()


@pytest.mark.parametrize("native", NATIVES)
@pytest.mark.parametrize(
    ("space", "actions", "error", "text"),
    [
        (spaces.Discrete(3), np.zeros(3, int), ActionError, r"shape \(4,\).*got \(3,\)"),
        (spaces.Discrete(3), np.zeros((), int), ArgumentTypeError, "single value"),
        (spaces.Discrete(3), np.zeros(4), ArgumentTypeError, "integers for Discrete"),
        (spaces.Discrete(3), np.array([None] * 4), ArgumentTypeError, "integers for Discrete"),
        (spaces.Box(-1, 1, (1,)), np.zeros((4, 1), "F"), ArgumentTypeError, "castable"),
        (spaces.Box(-1, 1, (1,)), np.array([["a"]] * 4), ArgumentTypeError, "castable"),
    ],
)
def test_actions__that_do_not_fit_are_refused(
    space: Any, actions: Any, error: Any, text: str, arrays: str, native: str
) -> None:
    with pytest.raises(error, match=f"`actions` must .*{text}"):
        read(space, arrays, actions, native)


def test_actions__may_be_overwritten_after_the_step(arrays: str) -> None:
    envs = shared_batch("brax", arrays)
    runs = []
    for is_spoilt in (False, True):
        envs.reset(seed=1)
        actions = np.ones(64 + 4, np.int32)
        actions = actions[-actions.ctypes.data % 64 // 4 :][:4]  # aligned: jax could share it
        shown = envs.step(actions)
        if is_spoilt:
            actions[:] = 2
        runs.append((to_numpy(shown[1]), to_numpy(envs.step(np.zeros(4, np.int32))[1])))
    for left, right in zip(*runs, strict=True):
        np.testing.assert_array_equal(left, right)


def test_numpy__compiles_nothing_anew(arrays: str, caplog: pytest.LogCaptureFixture) -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("brax")
    from gymbridge import BraxVectorEnv

    envs = BraxVectorEnv("fast", 3, arrays=arrays)
    envs.reset(seed=0)
    for _ in range(2):
        envs.step(
            jax.device_put(np.zeros((3, 1), np.float32), jax.devices()[0])
            if arrays == "jax"
            else to_kind(np.zeros((3, 1), np.float32), arrays)
        )
    with jax.log_compiles():
        envs.step(np.zeros((3, 1), np.float32))
    assert not [record for record in caplog.records if "ompil" in record.message]


@pytest.mark.parametrize("residuals", ["store", "recompute"])
def test_differentiable_batch__takes_numpy_without_a_gradient(residuals: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("brax")
    from gymbridge import BraxVectorEnv

    envs = BraxVectorEnv("fast", 2, arrays="torch", differentiable=True, residuals=residuals)
    envs.action_space.seed(0)
    sample = envs.action_space.sample()
    sample.flags.writeable = False
    envs.reset(seed=0)
    wanted = envs.step(torch.tensor(sample))[0]
    envs.reset(seed=0)
    obs = envs.step(sample)[0]
    assert torch.equal(obs, wanted)
    assert not obs.requires_grad
    envs.reset(seed=0)
    window = envs.unroll(np.stack([sample, sample]))[0]
    assert window.shape[0] == 2
    assert torch.equal(window[0], wanted)
    state = envs.physics_state.requires_grad_()
    envs.physics_state = state
    envs.step(sample)[0].sum().backward()
    assert state.grad is not None
