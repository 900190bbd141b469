"""Tensors and jax arrays as actions: taken in any layout, refused before anything moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from tensors import make_batch, shared_batch, to_kind, to_numpy

from gymbridge.core.actions import make_action_reader
from gymbridge.core.arrays import make_adapter
from gymbridge.core.requests import Device
from gymbridge.errors import ActionError, ArgumentError, ArgumentTypeError, NotInstalledError

NUM_ENVS = 4


def read(space: Any, arrays: str, actions: Any, native: str = "jax") -> Any:
    adapter = make_adapter(native, arrays, Device("cpu", 0))
    reader = make_action_reader(adapter.to_space(space), (NUM_ENVS,), adapter.make_action_reader)
    return reader(actions)


@pytest.mark.parametrize("native", ["numpy", "jax"])
@pytest.mark.parametrize(
    ("space", "given", "wanted"),
    [
        (spaces.Discrete(3), [-5, 0, 2, 9], [0, 0, 2, 2]),
        (spaces.Discrete(3, start=5), [0, 5, 7, 9], [5, 5, 7, 7]),
        (spaces.MultiDiscrete([2, 3]), [[5, 5], [0, -1], [1, 2], [0, 0]], [[1, 2], [0, 0]] * 2),
        (
            spaces.MultiBinary(2),
            [[5, 0], [0, -1], [1, 2], [0, 0]],
            [[1, 0], [0, 0], [1, 1], [0, 0]],
        ),
        (spaces.Box(-3, 3, (1,), np.int16), [[-9], [65535], [0], [3]], [[-3], [3], [0], [3]]),
        (spaces.Box(0, 200, (1,), np.uint8), [[-1], [300], [256], [7]], [[0], [200], [200], [7]]),
        (spaces.MultiBinary(1), [[256], [-256], [1], [0]], [[1], [0], [1], [0]]),
    ],
)
def test_integers__are_clipped_into_their_space(
    space: Any, given: Any, wanted: Any, arrays: str, native: str
) -> None:
    found = np.asarray(read(space, arrays, to_kind(np.array(given), arrays), native))
    assert found.tolist() == wanted
    assert found.dtype.kind in "iu"


def test_unsigned_integers__are_large_and_not_negative(arrays: str) -> None:
    actions = to_kind(np.array([0, 1, 2**31, 2**32 - 1], np.uint32), arrays)
    assert np.asarray(read(spaces.Discrete(3), arrays, actions)).tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "bool"])
def test_integers__of_any_width_are_taken(arrays: str, dtype: str) -> None:
    actions = to_kind(np.array([0, 1, 1, 0]).astype(dtype), arrays)
    assert np.asarray(read(spaces.Discrete(2000), arrays, actions)).tolist() == [0, 1, 1, 0]


def test_floats__may_leave_their_space(arrays: str) -> None:
    actions = to_kind(np.array([[7.0], [-7.0], [0.5], [0.0]], np.float32), arrays)
    assert np.asarray(read(spaces.Box(-1, 1, (1,)), arrays, actions)).ravel().tolist() == [
        *(7, -7, 0.5, 0)
    ]


def test_integers_for_a_box__become_floats(arrays: str) -> None:
    found = np.asarray(read(spaces.Box(-1, 1, (1,)), arrays, to_kind(np.ones((4, 1), int), arrays)))
    assert found.dtype == np.float32
    assert found.ravel().tolist() == [1] * 4


@pytest.mark.parametrize("native", ["numpy", "jax"])
@pytest.mark.parametrize(
    ("space", "make", "error", "text"),
    [
        (spaces.Discrete(3), lambda: np.zeros(3, int), ActionError, r"shape \(4,\).*got \(3,\)"),
        (spaces.Discrete(3), lambda: np.zeros((4, 1), int), ActionError, r"got \(4, 1\)"),
        (spaces.Discrete(3), lambda: np.zeros((), int), ArgumentTypeError, "single value"),
        (spaces.Discrete(3), lambda: np.zeros(4, "f"), ArgumentTypeError, "integers for Discrete"),
        (spaces.Box(-1, 1, (1,)), lambda: np.zeros((4, 2), "f"), ActionError, r"got \(4, 2\)"),
        (spaces.Box(-1, 1, (1,)), lambda: np.zeros((4, 1), "F"), ArgumentTypeError, "castable"),
        (spaces.Dict(a=spaces.Discrete(2)), lambda: np.zeros(4, int), ArgumentTypeError, "keys"),
    ],
)
def test_actions__that_do_not_fit_are_refused(
    space: Any, make: Any, error: Any, text: str, arrays: str, native: str
) -> None:
    with pytest.raises(error, match=text):
        read(space, arrays, to_kind(make(), arrays), native)


@pytest.mark.parametrize("actions", [[0, 1, 0, 1], (0, 1, 0, 1), None, 3, np.int64(3)])
def test_actions__of_another_kind_are_refused_with_the_way_to_make_them(
    actions: Any, arrays: str
) -> None:
    hint = {"torch": r"torch.Tensor.*torch.as_tensor", "jax": r"jax.Array.*jax.numpy.asarray"}
    with pytest.raises(ArgumentTypeError, match=hint[arrays]):
        read(spaces.Discrete(2), arrays, actions)


def test_torch_actions__on_another_device_or_sparse_are_refused() -> None:
    torch = pytest.importorskip("torch")
    box = spaces.Box(-1, 1, (1,))
    with pytest.raises(ArgumentError, match=r"on 'cpu'.*got 'meta'; use actions.to\('cpu'\)"):
        read(box, "torch", torch.zeros(4, 1, device="meta"))
    with pytest.raises(ArgumentTypeError, match=r"dense tensor.*to_dense"):
        read(box, "torch", torch.zeros(4, 1).to_sparse())


@pytest.mark.filterwarnings("ignore:torch.quantize", "ignore:The PyTorch API of nested")
def test_torch_actions__quantized_or_nested_are_refused() -> None:
    torch = pytest.importorskip("torch")
    box = spaces.Box(-1, 1, (1,))
    with pytest.raises(ArgumentTypeError, match=r"dense tensor, got .*qint8; use .*dequantize\(\)"):
        read(box, "torch", torch.quantize_per_tensor(torch.ones(4, 1), 1, 0, torch.qint8))
    with pytest.raises(ArgumentTypeError, match=r"dense tensor, got a nested tensor"):
        read(box, "torch", torch.nested.nested_tensor([torch.ones(1)] * 4))


@pytest.mark.parametrize("native", ["numpy", "jax", "torch"])
def test_torch_actions__that_are_lazily_negated_are_those_values(native: str) -> None:
    torch = pytest.importorskip("torch")
    if native == "torch":
        pytest.importorskip("jax")
    view = torch.complex(torch.zeros(4, 1), torch.ones(4, 1)).conj().imag
    assert view.is_neg()
    found = read(spaces.Box(-1, 1, (1,)), "torch", view, native)
    assert found.tolist() == [[-1]] * 4
    whole = torch._neg_view(torch.tensor([0, -1, -2, -9]))
    assert read(spaces.Discrete(3), "torch", whole, native).tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize("native", ["numpy", "jax"])
@pytest.mark.parametrize("given", ["tensor", "numpy"])
@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_torch_actions__of_unsigned_integers_are_clipped_to_the_last(
    dtype: str, given: str, native: str
) -> None:
    torch = pytest.importorskip("torch")
    array = np.array([0, 1, 2, np.iinfo(dtype).max], dtype)
    half = np.array([np.iinfo(dtype).max // 2 + 1] * 4, dtype)
    for actions, wanted in ((array, [0, 1, 2, 2]), (half, [2] * 4), (half[::-1], [2] * 4)):
        batch = torch.tensor(actions.copy()) if given == "tensor" else actions
        assert read(spaces.Discrete(3), "torch", batch, native).tolist() == wanted


@pytest.mark.parametrize("native", ["numpy", "jax"])
def test_unsigned_space__is_clipped_into(arrays: str, native: str) -> None:
    actions = to_kind(np.array([[-1], [0], [5], [99]]), arrays)
    space = spaces.Box(0, 9, (1,), np.uint64)
    assert np.asarray(read(space, arrays, actions, native)).ravel().tolist() == [0, 0, 5, 9]


@pytest.mark.parametrize("native", ["numpy", "jax"])
def test_torch_actions__of_any_layout_are_those_values(native: str) -> None:
    torch = pytest.importorskip("torch")
    box, wide = spaces.Box(-9, 9, (2,)), torch.arange(32.0).reshape(4, 8)
    for view in (wide[:, ::4], wide.t()[:2].t(), wide[:1, :2].expand(4, 2), wide.flip(1)[:, :2]):
        found = np.asarray(read(box, "torch", view, native))
        assert found.tolist() == view.tolist()
    assert read(box, "torch", wide[:, :2].clone().requires_grad_(), native).shape == (4, 2)


def test_refused_actions__leave_the_batch_as_it_was(arrays: str, mode: str) -> None:
    envs = shared_batch("brax", arrays, mode)
    runs = []
    for is_bothered in (False, True):
        envs.reset(seed=1)
        if is_bothered:
            with pytest.raises(ActionError):
                envs.step(to_kind(np.zeros(3, np.int64), arrays))
        runs.append(to_numpy(envs.step(to_kind(np.ones(4, np.int64), arrays))[0]).tolist())
    assert runs[0] == runs[1]


def test_actions__that_change_after_the_step_change_nothing() -> None:
    torch = pytest.importorskip("torch")
    envs = shared_batch("brax", "torch")
    runs = []
    for is_spoilt in (False, True):
        envs.reset(seed=1)
        actions = torch.ones(4, dtype=torch.int32)
        shown = envs.step(actions)
        if is_spoilt:
            actions.fill_(2)
        runs.append((to_numpy(shown[1]), to_numpy(envs.step(torch.zeros(4, dtype=torch.int32))[1])))
    for left, right in zip(*runs, strict=True):
        np.testing.assert_array_equal(left, right)


def test_arrays__are_one_of_three() -> None:
    with pytest.raises(ArgumentError, match=r"`arrays` must be one of .*'torch'.*got 'tensorflow'"):
        make_batch("host", "tensorflow")


def test_missing_library__is_named_with_its_install_command(
    arrays: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, f"gymbridge.core.arrays.{arrays}", None)
    monkeypatch.setitem(sys.modules, arrays, None)
    monkeypatch.delitem(sys.modules, f"gymbridge.core.arrays.{arrays}")
    with pytest.raises(NotInstalledError, match=f"pip install {arrays}"):
        make_batch("host", arrays)


def test_weak_types__compile_nothing_anew() -> None:
    jnp = pytest.importorskip("jax.numpy")
    pytest.importorskip("brax")
    from gymbridge import BraxVectorEnv

    envs = BraxVectorEnv("fast", 4, arrays="jax")
    envs.reset(seed=0)
    envs.step(jnp.zeros((4, 1)))
    compiled = envs._runner.step._cache_size()
    envs.step(jnp.full((4, 1), 0.1))
    assert envs._runner.step._cache_size() == compiled
