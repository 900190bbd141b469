"""Where arrays are: parsed once, found or refused with the way out, kept there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gymbridge.core.devices import Device, read_device
from gymbridge.errors import ArgumentError, ArgumentTypeError
from tests.support.batches import make_batch


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("cpu", Device("cpu", 0)), ("cuda", Device("cuda", 0)), ("cuda:3", Device("cuda", 3))],
)
def test_read_device__takes_strings(given: str, wanted: Device) -> None:
    assert read_device(given) == wanted
    assert read_device(wanted) is wanted


def test_read_device__takes_the_devices_of_both_libraries() -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    assert read_device(torch.device("cuda:1")) == Device("cuda", 1)
    assert read_device(torch.device("cuda")) == Device("cuda", 0)
    assert read_device(jax.devices("cpu")[0]) == Device("cpu", 0)
    assert read_device(None) is None


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("", ArgumentError),
        ("cuda:x", ArgumentError),
        ("CPU", ArgumentError),
        (3, ArgumentTypeError),
    ],
)
def test_read_device__refuses_the_rest(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="`device` must be"):
        read_device(given)


@pytest.mark.parametrize("engine", ["host", "brax"])
def test_missing_device__is_an_error_and_never_a_run_elsewhere(engine: str, arrays: str) -> None:
    hint = "jax.cuda13" if arrays == "jax" or engine == "brax" else "pytorch.org"
    with pytest.raises(ArgumentError, match=rf"got 'cuda:7'(.|\n)*{hint}"):
        make_batch(engine, arrays=arrays, device="cuda:7")


def test_numpy_arrays_of_a_host_engine__are_on_the_cpu() -> None:
    with pytest.raises(ArgumentError, match="`arrays='torch'` puts tensors on that device"):
        make_batch("host", device="cuda")
    assert make_batch("host", device="cpu").num_envs == 4


def test_numpy_arrays_of_brax__come_from_any_device() -> None:
    with pytest.raises(ArgumentError, match=r"jax.cuda13"):
        make_batch("brax", device="cuda")


def places(tree: Any) -> set[Any]:
    """Return the devices of jax arrays."""
    import jax

    return {device for leaf in jax.tree.leaves(tree) for device in leaf.devices()}


@pytest.mark.parametrize("kind", ["jax", "numpy"])
def test_brax__stays_on_its_device(kind: str) -> None:
    jax = pytest.importorskip("jax")
    first, second = jax.devices()[:2]
    envs = make_batch("fast", num_envs=2, arrays=kind, device=second if kind == "jax" else "cpu:1")
    returned = envs.reset(seed=0)
    action = np.zeros((2, 1), np.float32)
    given = jax.device_put(action, second) if kind == "jax" else action
    envs.step(given)
    envs.reset(options={"reset_mask": np.array([True, False])})
    step = envs.step(given)
    if kind == "jax":
        assert places((returned, step, envs.functional()[0])) == {second}
        message = r"`actions` must be on cpu:1(.|\n)*jax\.device_put"
        with pytest.raises(ArgumentError, match=message):
            envs.step(jax.device_put(action, first))


def test_snapshot__of_another_device_goes_on_here_with_gradients_of_unused_outputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("brax")
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    from gymbridge.gradients.autograd import JaxFunction

    options = {"num_envs": 2, "limit": 4, "arrays": "torch", "differentiable": True}
    here, there = (make_batch("fast", device=device, **options) for device in jax.devices()[:2])
    for envs, seed in ((here, 3), (there, 8)):
        envs.reset(seed=seed)
        envs.step(torch.zeros(2, 1))
    there.step(torch.zeros(2, 1))  # it would end one step earlier
    there.set_state(here.get_state())
    assert there.np_random_seed == here.np_random_seed
    second = jax.devices()[1]
    assert places(there._carry) == {second}
    for _ in range(3):
        actions = torch.zeros(2, 1, requires_grad=True)
        for one, other in zip(here.step(actions)[:4], there.step(actions)[:4], strict=True):
            assert torch.equal(one, other)

    found: list[Any] = []
    pull = JaxFunction.pull
    record = lambda *given: found.append(pull(*given)) or found[-1]  # noqa: E731
    monkeypatch.setattr(JaxFunction, "pull", record)
    there.reset(seed=0)
    there.physics_state = there.physics_state.detach().requires_grad_()
    there.step(torch.zeros(2, 1))[0].sum().backward()
    assert places(found) == {second}


@pytest.mark.parametrize("engine", ["host", "brax"])
def test_device__is_where_the_arrays_are(engine: str, arrays: str) -> None:
    envs = make_batch(engine, arrays=arrays)
    obs, _ = envs.reset(seed=0)
    assert envs.device in (obs.devices() if arrays == "jax" else {obs.device})
    assert make_batch(engine).device is None
