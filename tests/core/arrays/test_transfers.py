"""No step reads a value on the host, where its arrays are on a device; a counter proves it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

from tests.support.batches import leaves, make_batch, shared_batch, to_kind
from tests.support.reads import count_reads


def test_counter__counts(arrays: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array = to_kind(np.ones(()), arrays)
    reads = [bool, float, int, lambda x: x.item(), lambda x: x.tolist(), lambda x: np.asarray(x)]
    if arrays == "jax":
        reads.append(lambda x: x.block_until_ready())
    for read in reads:
        with count_reads(arrays, monkeypatch) as counter:
            read(array)
        assert counter.total() > 0
    with count_reads(arrays, monkeypatch) as counter:
        _ = array + 1
    assert counter.total() == 0


@pytest.mark.parametrize("engine", ["host", "brax", "envpool"])
def test_step__reads_no_value(
    engine: str, arrays: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs = shared_batch(engine, mode, limit=2, arrays=arrays)
    actions = to_kind(np.ones(4, np.int64), arrays)
    envs.reset(seed=0)
    envs.step(actions)  # compiles
    envs.reset(seed=0)
    simulated = count_reads("jax", monkeypatch) if engine == "brax" else nullcontext(Counter())
    with simulated as other, count_reads(arrays, monkeypatch) as counter:
        for _ in range(4 if mode != "Disabled" or engine == "brax" else 1):
            envs.step(actions)
    # A host engine takes its actions in one transfer, and on the CPU torch shares them.
    wanted = 4 if mode != "Disabled" else 1
    host = {"jax": {"numpy": wanted}, "torch": {}}[arrays]
    found = dict(counter)
    if engine == "brax":
        # Small tensors on the CPU are copies: of observations, rewards, buffers and what is few.
        copies = 0 if arrays == "jax" else 4 * (10 if mode == "SameStep" else 6)
        assert (counter.total(), other.total(), other["numpy"]) == (0, copies, copies)
    else:
        assert {name: count for name, count in found.items() if count} == host


def test_gradients__read_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    envs = make_batch("fast", "SameStep", num_envs=3, arrays="torch", differentiable=True)
    actions = torch.zeros(2, 3, 1, requires_grad=True)

    def use_all() -> None:
        obs, rewards, *_ = envs.step(actions[0])
        (obs.sum() + rewards.sum()).backward()
        envs.detach()
        envs.physics_state = envs.physics_state
        state = envs.get_state()
        envs.unroll(actions)[0].sum().backward()
        envs.set_state(state)
        with torch.no_grad():
            envs.step(actions[0])

    envs.reset(seed=0)
    use_all()  # compiles
    with count_reads("torch", monkeypatch) as counter, count_reads("jax", monkeypatch) as other:
        use_all()
    assert (counter.total(), other.total()) == (0, other["numpy"])  # copies of small arrays


def test_weak_types__compile_nothing_anew(caplog: pytest.LogCaptureFixture) -> None:
    jnp = pytest.importorskip("jax.numpy")
    envs = make_batch("fast", arrays="jax")
    envs.reset(seed=0)
    envs.step(jnp.zeros((4, 1)))
    with caplog.at_level("INFO", "gymbridge"):
        envs.step(jnp.full((4, 1), 0.1))
    assert "Compiling step" not in caplog.text


def upload(tree: Any, arrays: str) -> Any:
    """Return a tree that went to the CPU as others go to an accelerator, in one buffer."""
    if arrays == "torch":
        import torch

        from gymbridge.core.arrays.torch import upload_packed

        return upload_packed(tree, torch.device("cpu"))
    import jax

    from gymbridge.core.arrays.jax import upload_packed

    return upload_packed(tree, jax.devices("cpu")[0])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float32", "float64", "int64"])
def test_packed_upload__is_what_was_packed(arrays: str, dtype: str) -> None:
    """What goes to an accelerator in one buffer; here it lands on the CPU."""
    rng = np.random.default_rng(0)
    tree = {
        "a": rng.integers(0, 2, (3, 5)).astype(dtype),
        "b": {"c": rng.integers(0, 2, (3, 2, 3)).astype(np.uint8), "flag": np.ones(3, np.bool_)},
        "d": rng.integers(0, 100, 3).astype(dtype)[::-1],
        "empty": np.zeros((3, 0), np.float32),
    }
    uploaded = upload(tree, arrays)
    for name in ("a", "d"):
        np.testing.assert_array_equal(np.asarray(uploaded[name]), tree[name])
        assert uploaded[name].shape == tree[name].shape
    np.testing.assert_array_equal(np.asarray(uploaded["b"]["c"]), tree["b"]["c"])
    assert np.asarray(uploaded["b"]["flag"]).all()


def test_packed_upload__lets_each_leaf_go_alone(arrays: str) -> None:
    tree = {"obs": np.ones((4, 1000)), "reward": np.ones(4), "flags": {"a": np.ones(4, np.bool_)}}
    uploaded = list(leaves(upload(tree, arrays)))
    if arrays == "torch":
        sizes = [leaf.untyped_storage().nbytes() for leaf in uploaded]
        assert sizes == [leaf.nbytes for leaf in uploaded]
        spans = [(leaf.data_ptr(), leaf.nbytes) for leaf in uploaded]
    else:
        spans = [
            (leaf.unsafe_buffer_pointer(), leaf.on_device_size_in_bytes()) for leaf in uploaded
        ]
    spans.sort()
    for (start, size), (following, _) in itertools.pairwise(spans):
        assert start + size <= following


def note_transfers(monkeypatch: pytest.MonkeyPatch, maker: str) -> dict[str, Any]:
    """Return what will have been asked of torch's maker of tensors and of `Tensor.to`."""
    torch = pytest.importorskip("torch")
    asked: dict[str, Any] = {}
    make, to = getattr(torch, maker), torch.Tensor.to

    def note_made(*args: Any, pin_memory: bool, **kwargs: Any) -> Any:
        asked["pinned"] = pin_memory
        return make(*args, **kwargs)

    def note_to(self: Any, *args: Any, **kwargs: Any) -> Any:
        asked.update(kwargs, transfers=asked.get("transfers", 0) + 1)
        return to(self, *args, **kwargs)

    monkeypatch.setattr(torch, maker, note_made)
    monkeypatch.setattr(torch.Tensor, "to", note_to)
    return asked


def test_upload_to_a_gpu__is_pinned_and_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen without one: what is asked of torch, and values under another default device."""
    torch = pytest.importorskip("torch")
    from gymbridge.core.arrays.torch import upload_packed

    tree = {"a": np.arange(3.0), "b": np.ones((3, 2), np.uint8)}
    with torch.device("meta"):
        assert upload_packed(tree, torch.device("cpu"))["a"].tolist() == [0, 1, 2]
    asked = note_transfers(monkeypatch, "empty")
    assert upload_packed(tree, torch.device("meta"))["a"].device.type == "meta"
    assert asked == {"pinned": True, "non_blocking": True, "transfers": 1}


def test_tensor_of_another_gpu__is_exported_with_that_one_as_torch_s_current(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torch refuses others. Seen without a GPU: a tensor on "meta" goes the way of CUDA's."""
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax.dlpack")
    from gymbridge.core.arrays.torch import torch_to_jax

    current: list[Any] = []

    @contextmanager
    def set_current(device: Any) -> Iterator[None]:
        current.append(device)
        yield
        current.pop()

    monkeypatch.setattr(torch.cuda, "device", set_current)
    monkeypatch.setattr(jax, "from_dlpack", lambda tensor: (tensor.device, *current))
    meta = torch.device("meta")
    assert torch_to_jax(torch.ones(2, device=meta)) == (meta, meta)
    assert current == []


def test_memory_of_large_arrays__is_shared_between_jax_and_torch() -> None:
    """The tensors that the user gets are the buffers that the compiled step wrote, or copies."""
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    from gymbridge.core.arrays.torch import choose_to_torch

    large = jax.numpy.ones((1024, 512))
    time_step = {"obs": large, "reward": jax.numpy.ones(4), "flags": large > 0}
    to_torch = choose_to_torch(jax.devices()[0])
    tensors = {name: to_torch(leaf) for name, leaf in time_step.items()}
    assert tensors["flags"].dtype == torch.bool
    for name, leaf in time_step.items():
        is_shared = tensors[name].data_ptr() == leaf.unsafe_buffer_pointer()
        assert is_shared == (name != "reward")
