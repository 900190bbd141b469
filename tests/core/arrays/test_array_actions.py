"""Actions of torch and jax batches: tensors and jax arrays in any layout, and numpy arrays."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from gymbridge.core.actions import make_action_reader
from gymbridge.core.arrays import make_adapter
from gymbridge.core.devices import Device
from gymbridge.errors import ActionError, ArgumentError, ArgumentTypeError, NotInstalledError
from tests.support.batches import leaves, make_batch, shared_batch, to_kind, to_numpy
from tests.support.trees import assert_same

NUM_ENVS = 4
BOX = spaces.Box(-1, 1, (1,))


@pytest.fixture(params=("numpy", "jax"))
def native(request: pytest.FixtureRequest) -> str:
    """Kind of the simulator's arrays."""
    return request.param


def read(space: Any, arrays: str, actions: Any, native: str = "jax") -> Any:
    adapter = make_adapter(native, arrays, Device("cpu", 0))
    reader = make_action_reader(adapter.to_space(space), (NUM_ENVS,), adapter.make_action_reader)
    return reader(actions)


IN_ALL_KINDS = [
    (spaces.Discrete(3), np.array([-5, 0, 2, 9]), [0, 0, 2, 2]),
    (spaces.Discrete(3), np.array([True, False] * 2), [1, 0, 1, 0]),
    (spaces.Discrete(3, start=5), np.array([0, 5, 7, 9], np.int8), [5, 5, 7, 7]),
    (spaces.Discrete(2000), np.array([0, 1, 1, 0], np.uint8), [0, 1, 1, 0]),
    (spaces.Discrete(3), np.array([0, 1, 2**31, 2**32 - 1], np.uint32), [0, 1, 2, 2]),
    (spaces.MultiDiscrete([2, 3]), np.array([[5, 5], [0, -1]] * 2), [[1, 2], [0, 0]] * 2),
    (spaces.MultiBinary(2), np.array([[5, 0], [0, -1]] * 2), [[1, 0], [0, 0]] * 2),
    (spaces.MultiBinary(1), np.array([[256], [-256]] * 2), [[1], [0]] * 2),
    (spaces.Box(-3, 3, (1,), np.int16), np.array([[-9], [65535]] * 2), [[-3], [3]] * 2),
    (
        spaces.Box(0, 200, (1,), np.uint8),
        np.array([[-1], [300], [256], [7]]),
        [[0], *[[200]] * 2, [7]],
    ),
    (spaces.Box(0, 9, (1,), np.uint64), np.array([[-1], [300]] * 2), [[0], [9]] * 2),
    (BOX, np.array([[7.0], [-7]] * 2, np.float32), [[7], [-7]] * 2),
    (BOX, np.ones((4, 1), np.int64), [[1]] * 4),
]
IN_NUMPY = [
    (spaces.Discrete(3), np.array([0, 2**63, 2**64 - 1, 1], np.uint64), [0, 2, 2, 1]),
    (spaces.Discrete(3), np.array([0, 1, 2, -(2**40)], ">i8"), [0, 1, 2, 0]),
    (spaces.Discrete(3), np.arange(8)[::-2], [2, 2, 2, 1]),
    (BOX, np.array([[7.0], [-7]] * 2, ">f8"), [[7], [-7]] * 2),
]


@pytest.mark.parametrize(
    ("is_numpy", "space", "given", "wanted"),
    [(False, *case) for case in IN_ALL_KINDS] + [(True, *case) for case in IN_ALL_KINDS + IN_NUMPY],
)
def test_values__are_clipped_where_they_are_discrete(
    is_numpy: bool, space: Any, given: Any, wanted: Any, arrays: str, native: str
) -> None:
    given.flags.writeable = False
    actions = given if is_numpy else to_kind(given, arrays)
    found = np.asarray(read(space, arrays, actions, native))
    assert found.tolist() == wanted
    assert found.dtype.isnative
    assert found.dtype.kind in ("f" if space is BOX else "iu")


REFUSED = [
    (spaces.Discrete(3), np.zeros(3, int), ActionError, r"shape \(4,\).*got \(3,\)"),
    (spaces.Discrete(3), np.zeros((4, 1), int), ActionError, r"got \(4, 1\)"),
    (spaces.Discrete(3), np.zeros((), int), ArgumentTypeError, "single value"),
    (spaces.Discrete(3), np.zeros(4, "f"), ArgumentTypeError, "integers for Discrete"),
    (BOX, np.zeros((4, 2), "f"), ActionError, r"got \(4, 2\)"),
    (BOX, np.zeros((4, 1), "F"), ArgumentTypeError, "castable"),
    (spaces.Dict(a=spaces.Discrete(2)), np.zeros(4, int), ArgumentTypeError, "keys"),
]
REFUSED_IN_NUMPY = [
    (spaces.Discrete(3), np.array([None] * 4), ArgumentTypeError, "integers for Discrete"),
    (BOX, np.array([["a"]] * 4), ArgumentTypeError, "castable"),
]


@pytest.mark.parametrize(
    ("is_numpy", "space", "given", "error", "text"),
    [(False, *case) for case in REFUSED] + [(True, *case) for case in REFUSED + REFUSED_IN_NUMPY],
)
def test_actions__that_do_not_fit_are_refused(
    is_numpy: bool, space: Any, given: Any, error: Any, text: str, arrays: str, native: str
) -> None:
    with pytest.raises(error, match=f"`actions` must .*{text}"):
        read(space, arrays, given if is_numpy else to_kind(given, arrays), native)


@pytest.mark.parametrize("actions", [[0, 1, 0, 1], (0, 1, 0, 1), None, 3, np.int64(3)])
def test_actions__of_another_kind_are_refused_with_the_way_to_make_them(
    actions: Any, arrays: str
) -> None:
    hint = {"torch": r"torch.Tensor.*torch.as_tensor", "jax": r"jax.Array.*jax.numpy.asarray"}
    with pytest.raises(ArgumentTypeError, match=hint[arrays]):
        read(spaces.Discrete(2), arrays, actions)


@pytest.mark.filterwarnings("ignore:torch.quantize", "ignore:The PyTorch API of nested")
def test_torch_actions__elsewhere_or_not_dense_or_without_casts_are_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ArgumentError, match=r"on 'cpu'.*got 'meta'; use actions.to\('cpu'\)"):
        read(BOX, "torch", torch.zeros(4, 1, device="meta"))
    with pytest.raises(ArgumentTypeError, match=r"dense tensor.*to_dense"):
        read(BOX, "torch", torch.zeros(4, 1).to_sparse())
    with pytest.raises(ArgumentTypeError, match=r"dense tensor, got .*qint8; use .*dequantize\(\)"):
        read(BOX, "torch", torch.quantize_per_tensor(torch.ones(4, 1), 1, 0, torch.qint8))
    with pytest.raises(ArgumentTypeError, match=r"dense tensor, got a nested tensor"):
        read(BOX, "torch", torch.nested.nested_tensor([torch.ones(1)] * 4))
    for space, name in ((BOX, "bits8"), (BOX, "uint4"), (spaces.MultiBinary(1), "bits8")):
        with pytest.raises(ArgumentTypeError, match=f"that torch casts, got torch.{name}: "):
            read(space, "torch", torch.empty((4, 1), dtype=getattr(torch, name)))


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


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_torch_actions__of_unsigned_integers_are_clipped_to_the_last(
    dtype: str, native: str
) -> None:
    torch = pytest.importorskip("torch")
    array = np.array([0, 1, 2, np.iinfo(dtype).max], dtype)
    half = np.array([np.iinfo(dtype).max // 2 + 1] * 4, dtype)
    for actions, wanted in ((array, [0, 1, 2, 2]), (half, [2] * 4)):
        assert read(spaces.Discrete(3), "torch", torch.tensor(actions), native).tolist() == wanted


def test_torch_actions__of_any_layout_are_those_values(native: str) -> None:
    torch = pytest.importorskip("torch")
    box, wide = spaces.Box(-9, 9, (2,)), torch.arange(32.0).reshape(4, 8)
    for view in (wide[:, ::4], wide.t()[:2].t(), wide[:1, :2].expand(4, 2), wide.flip(1)[:, :2]):
        found = np.asarray(read(box, "torch", view, native))
        assert found.tolist() == view.tolist()
    assert read(box, "torch", wide[:, :2].clone().requires_grad_(), native).shape == (4, 2)


def test_dict__may_mix_kinds(arrays: str, native: str) -> None:
    space = spaces.Dict(move=spaces.Discrete(3), aim=spaces.Dict(at=spaces.Box(-1, 1, (2,))))
    at = np.ones((4, 2), np.float32)
    found = read(space, arrays, {"move": np.full(4, 9), "aim": {"at": at}}, native)
    assert np.asarray(found["move"]).tolist() == [2] * 4
    mixed = {"move": to_kind(np.full(4, 9), arrays), "aim": {"at": at}}
    found = read(space, arrays, mixed, native)
    assert np.asarray(found["aim"]["at"]).tolist() == at.tolist()


@pytest.mark.parametrize("is_numpy", [True, False])
def test_actions__may_be_overwritten_after_the_step(arrays: str, is_numpy: bool) -> None:
    if arrays == "jax" and not is_numpy:
        pytest.skip("jax arrays cannot be written")
    envs = shared_batch("brax", arrays=arrays)
    runs = []
    for is_spoilt in (False, True):
        envs.reset(seed=1)
        actions = np.ones(64 + 4, np.int32)
        actions = actions[-actions.ctypes.data % 64 // 4 :][:4]  # aligned: jax could share it
        actions = actions if is_numpy else to_kind(actions, arrays)
        returned = envs.step(actions)
        if is_spoilt:
            actions[:] = 2
        runs.append((to_numpy(returned[1]), to_numpy(envs.step(np.zeros(4, np.int32))[1])))
    np.testing.assert_array_equal(*runs)


@pytest.mark.parametrize("engine", ["host", "brax", "envpool"])
def test_sample__is_taken_as_an_array_of_the_kind_is(engine: str, arrays: str) -> None:
    envs = shared_batch(engine, arrays=arrays)
    envs.action_space.seed(0)
    samples = [envs.action_space.sample() for _ in range(8)]
    runs = []
    for convert in (lambda sample: sample, lambda sample: to_kind(sample, arrays)):
        envs.reset(seed=0)
        runs.append([])
        for sample in samples:
            returned = envs.step(convert(sample))
            assert {type(leaf) for leaf in leaves(returned)} == {type(returned[0])}
            runs[-1].append(to_numpy(returned[:2]))
    assert_same(*runs)


def test_numpy__compiles_nothing_anew(arrays: str, caplog: pytest.LogCaptureFixture) -> None:
    jax = pytest.importorskip("jax")
    envs = make_batch("fast", num_envs=3, arrays=arrays)
    envs.reset(seed=0)
    actions = np.zeros((3, 1), np.float32)
    for _ in range(2):
        envs.step(to_kind(actions, arrays, envs.device))
    with jax.log_compiles():
        envs.step(actions)
    assert not [record for record in caplog.records if "ompil" in record.message]


@pytest.mark.parametrize("residuals", ["store", "recompute"])
def test_differentiable_batch__takes_numpy_without_a_gradient(residuals: str) -> None:
    torch = pytest.importorskip("torch")
    options = {"arrays": "torch", "differentiable": True, "residuals": residuals}
    envs = make_batch("fast", num_envs=2, **options)
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


def test_arrays__are_one_of_three() -> None:
    with pytest.raises(ArgumentError, match=r"`arrays` must be one of .*'torch'.*got 'tensorflow'"):
        make_batch("host", arrays="tensorflow")


def test_missing_library__is_named_with_its_install_command(
    arrays: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, f"gymbridge.core.arrays.{arrays}", None)
    monkeypatch.setitem(sys.modules, arrays, None)
    monkeypatch.delitem(sys.modules, f"gymbridge.core.arrays.{arrays}")
    with pytest.raises(NotInstalledError, match=f"pip install {arrays}"):
        make_batch("host", arrays=arrays)


@pytest.mark.parametrize("engine", ["host", "brax"])
def test_mask__inside_a_transformation_is_refused(engine: str, arrays: str) -> None:
    envs = shared_batch(engine, arrays=arrays)
    envs.reset(seed=0)

    def reset(mask: Any) -> Any:
        return envs.reset(options={"reset_mask": mask})[0]

    library = pytest.importorskip("torch.func" if arrays == "torch" else "jax")
    with pytest.raises(ArgumentTypeError, match=r"`options\['reset_mask'\]` must hold bools"):
        library.vmap(reset)(to_kind(np.ones((2, NUM_ENVS), np.bool_), arrays))
