"""A spec holds what is in force, as JSON can hold it; a batch pickles as its construction."""

from __future__ import annotations

import copy
import pickle
import sys
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from gymbridge.core.specs import fit_spec, name_device
from gymbridge.core.vector_env import BridgeVectorEnv
from gymbridge.testing import ScriptedSimulator, scripted_vector_env


class Pair(NamedTuple):
    first: Any
    second: Any


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.int64(3), 3),
        (np.arange(2), [0, 1]),
        ({"b", "a"}, ["a", "b"]),
        (frozenset({2, 1}), [1, 2]),
        ((np.float32(0.5), [np.bool_(True)]), [0.5, [True]]),
        ({"inner": {"flag": np.bool_(True)}}, {"inner": {"flag": True}}),
        (len, len),
    ],
    ids=["number", "array", "set", "frozenset", "tuple", "dict", "function"],
)
def test_spec__holds_what_json_can_hold(given: Any, kept: Any) -> None:
    spec = EnvSpec("Own-v0", kwargs={"value": given})
    plain = fit_spec(spec, 9, AutoresetMode.NEXT_STEP)
    assert plain is not None
    assert plain.kwargs == {"value": kept}
    assert type(plain.kwargs["value"]) is type(kept)
    assert spec.kwargs["value"] is given


def test_spec__is_apart_from_the_one_that_was_given() -> None:
    class Log:
        lines = ()

    log = Log()
    spec = fit_spec(EnvSpec("Own-v0", kwargs={"log": log}), 9, AutoresetMode.NEXT_STEP)
    assert spec is not None
    assert type(spec.kwargs["log"]) is Log
    assert spec.kwargs["log"] is not log


@pytest.mark.parametrize(
    ("limit", "kwargs", "kept"),
    [
        (5, {}, {}),
        (5, {"max_episode_steps": 9}, {}),
        (None, {}, {}),
        (None, {"max_episode_steps": 9, "x": 1}, {"max_episode_steps": -1, "x": 1}),
        (5, {"autoreset_mode": AutoresetMode.SAME_STEP}, {"autoreset_mode": "SameStep"}),
    ],
)
def test_spec_of_a_batch__has_the_limit_and_the_mode_in_force(
    limit: int | None, kwargs: dict[str, Any], kept: dict[str, Any]
) -> None:
    envs = scripted_vector_env([9, 9], max_episode_steps=limit, autoreset_mode="SameStep")
    assert envs.spec is None
    envs.spec = EnvSpec("Own-v0", max_episode_steps=7, kwargs=kwargs)
    assert envs.spec.max_episode_steps == limit
    assert envs.spec.kwargs == kept


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda envs: pickle.loads(pickle.dumps(envs))]
)
def test_copy__is_built_from_the_same_arguments_with_devices_by_name(duplicate: Any) -> None:
    device = pytest.importorskip("torch").device("cpu")
    envs = BridgeVectorEnv(ScriptedSimulator([3, 3]), arrays="torch", device=device)
    envs.spec = EnvSpec("Own-v0", kwargs={"device": device})
    twin = duplicate(envs)
    assert type(twin) is BridgeVectorEnv
    assert twin is not envs
    assert twin._construction[1] == {"arrays": "torch", "device": "cpu"}
    assert twin.spec == envs.spec == EnvSpec("Own-v0", kwargs={"device": "cpu"})
    envs.spec = None
    assert envs.spec is None


def test_name_device__names_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    assert name_device(torch.device("cpu")) == "cpu"
    assert name_device((torch.device("cuda:1"), "cpu")) == ("cuda:1", "cpu")


def test_name_device__names_those_of_jax() -> None:
    jax = pytest.importorskip("jax")
    devices = jax.devices()[:1]
    mesh = jax.sharding.Mesh(np.array(devices), ("rows",))
    assert name_device(devices) == ["cpu:0"]
    assert name_device(jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())) == ["cpu:0"]


def test_name_device__calls_a_gpu_of_jax_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimpleNamespace(platform="gpu", id=3)
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(Device=SimpleNamespace))
    assert name_device(gpu) == "cuda:3"


@pytest.mark.parametrize(
    "value",
    [3, "cpu", None, Pair(1, 2), SimpleNamespace(mesh=1), SimpleNamespace(spec=1)],
    ids=repr,
)
@pytest.mark.parametrize("absent", [(), ("jax",), ("torch",), ("jax", "torch")], ids=repr)
def test_name_device__gives_the_rest_as_it_is(
    value: Any, absent: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in absent:
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert name_device(value) is value
