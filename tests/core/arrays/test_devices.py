"""Where arrays are: parsed once, found or refused with the way out, kept there."""

from __future__ import annotations

from typing import Any

import pytest
from batches import make_batch
from python_runs import run_python

from gymbridge.core.devices import Device, read_device
from gymbridge.errors import ArgumentError, ArgumentTypeError


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
    pytest.importorskip("brax")
    with pytest.raises(ArgumentError, match=r"jax.cuda13"):
        make_batch("brax", device="cuda")


TWO_DEVICES = """
import jax, numpy as np
from gymbridge import BraxVectorEnv
first, second = jax.devices()
def places(tree):
    return {device for leaf in jax.tree.leaves(tree) for device in leaf.devices()}
for device, arrays in ((second, "jax"), ("cpu:1", "numpy")):
    envs = BraxVectorEnv("fast", 2, arrays=arrays, device=device)
    returned = envs.reset(seed=0)
    action = jax.device_put(np.zeros((2, 1), np.float32), second)
    step = envs.step(np.asarray(action) if arrays == "numpy" else action)
    envs.reset(options={"reset_mask": np.array([True, False])})
    step = envs.step(np.asarray(action) if arrays == "numpy" else action)
    if arrays == "jax":
        assert places((returned, step, envs.functional()[0])) == {second}
        try:
            envs.step(jax.device_put(np.zeros((2, 1), np.float32), first))
        except ValueError as error:
            print(error)
"""


GRADIENTS = """
import torch
options = {"arrays": "torch", "differentiable": True, "max_episode_steps": 4}
here, there = (BraxVectorEnv("fast", 2, device=device, **options) for device in jax.devices())
for envs, seed in ((here, 3), (there, 8)):
    envs.reset(seed=seed)
    envs.step(torch.zeros(2, 1))
there.step(torch.zeros(2, 1))  # it would end one step earlier
there.set_state(here.get_state())
assert there.np_random_seed == here.np_random_seed
assert places(there._carry) == {second}
for _ in range(3):
    actions = torch.zeros(2, 1, requires_grad=True)
    for one, other in zip(here.step(actions)[:4], there.step(actions)[:4], strict=True):
        assert torch.equal(one, other)

from gymbridge.gradients.autograd import JaxFunction
given = []
pull = JaxFunction.pull
JaxFunction.pull = lambda self, kept, found: given.extend(found) or pull(self, kept, found)
there.reset(seed=0)
there.physics_state = there.physics_state.detach().requires_grad_()
there.step(torch.zeros(2, 1))[0].sum().backward()
assert [one.devices() for one in given if isinstance(one, jax.Array)] == [{second}] * 2, given
"""


def test_brax__stays_on_its_device() -> None:
    """So do snapshots that another device took, and gradients of outputs that nobody used."""
    pytest.importorskip("brax")
    pytest.importorskip("torch")
    script, flags = TWO_DEVICES + GRADIENTS, "host_platform_device_count=2"
    printed = run_python("-c", script, XLA_FLAGS=f"--xla_force_{flags}").out
    assert "`actions` must be on cpu:1" in printed
    assert "jax.device_put" in printed


@pytest.mark.parametrize("engine", ["host", "brax"])
def test_device__is_where_the_arrays_are(engine: str, arrays: str) -> None:
    envs = make_batch(engine, arrays=arrays)
    obs, _ = envs.reset(seed=0)
    assert envs.device in (obs.devices() if arrays == "jax" else {obs.device})
    assert make_batch(engine).device is None
