"""Equal batches share what is compiled; each difference separates them; the last one drops it."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from brax_samples import SampleEnv
from falling_ball import FallingBall, draw
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from mujoco_playground import registry

from gymbridge import BraxVectorEnv, PlaygroundVectorEnv
from gymbridge.brax.private import registered
from gymbridge.functional import carries
from gymbridge.functional.runners import JitRunner, RaisingRunner
from gymbridge.functional.sharing import make_key


def runner_of(**changes: Any) -> tuple[BraxVectorEnv, Any]:
    envs = BraxVectorEnv(**{"brax_env": "fast", "num_envs": 2, **changes})
    return envs, envs._runner


def test_equal_batch__traces_and_compiles_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = BraxVectorEnv("fast", 2, autoreset_mode="SameStep")
    first.reset(seed=0)
    first.step(first.action_space.sample())
    first.set_state(first.get_state())
    monkeypatch.setattr(carries, "carry_shapes", lambda rule: 1 / 0)  # It traces `reset`.
    second = BraxVectorEnv("fast", num_envs=np.int64(2), autoreset_mode=AutoresetMode.SAME_STEP)
    with caplog.at_level("INFO", "gymbridge"), jax.log_compiles():
        second.reset(seed=0)
        second.step(second.action_space.sample())
        second.set_state(second.get_state())
    assert [record.message for record in caplog.records if "ompil" in record.message] == []


def test_equal_batches__have_states_of_their_own() -> None:
    (first, runner), (second, other) = (runner_of(max_episode_steps=2) for _ in range(2))
    assert runner is other
    unseeded = [envs.action_space.sample().tolist() for envs in (first, second)]
    assert unseeded[0] != unseeded[1]
    actions = np.zeros(first.action_space.shape, np.float32)
    assert first.single_action_space is not second.single_action_space
    first.action_space.seed(3)
    second.single_action_space.seed(3)
    drawn = first.action_space.sample()
    assert not np.array_equal(first.action_space.sample(), drawn)
    first.action_space.seed(3)
    second.action_space.sample()
    second.single_action_space.sample()
    assert np.array_equal(first.action_space.sample(), drawn)
    first.reset(seed=0)
    first.step(actions)
    second.reset(seed=5)
    assert second.np_random_seed == (5, 6)
    assert first.np_random_seed == (0, 1)
    assert not second.step(actions)[3].any()
    assert first.step(actions)[3].all()
    second.set_attr("note", 3)
    with pytest.raises(AttributeError):
        first.get_attr("note")
    assert second.get_attr("note") == (3, 3)
    second.metadata["render_modes"].append("human")
    assert "human" not in first.metadata["render_modes"]
    second.close()
    assert not first.step(actions)[3].any()


@pytest.mark.parametrize(
    "change",
    [
        {"brax_env": "inverted_pendulum", "backend": "spring"},
        {"num_envs": 3},
        {"max_episode_steps": 7},
        {"autoreset_mode": "SameStep"},
        {"arrays": "jax"},
        {"arrays": "torch"},
        {"action_repeat": 2},
        {"info_keys": []},
        {"nonfinite": "ignore"},
        {"nonfinite": "raise"},
        {"obs_mode": "dict_state"},
        {"device": "cpu:1"},
        {"device": "cpu:all"},
    ],
    ids=str,
)
def test_difference__separates(change: dict[str, Any]) -> None:
    first, second = runner_of(), runner_of(**change)
    assert first[1] is not second[1]
    again = runner_of(**change)
    assert again[1] is second[1]
    assert pickle.loads(pickle.dumps(again[0]))._runner is second[1]


def test_gradients__separate() -> None:
    plain, graph = runner_of(arrays="torch"), runner_of(arrays="torch", differentiable=True)
    recomputing = runner_of(arrays="torch", differentiable=True, residuals="recompute")
    assert len({plain[1], graph[1], recomputing[1]}) == 3
    assert runner_of(arrays="torch", differentiable=True)[1] is graph[1]


def test_gradients_of_mjxs_solver__separate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen in the keys, which are formed before the environment is traced."""
    keys: list[Any] = []
    monkeypatch.setattr(
        "gymbridge.brax.vector_env.share", lambda key, *_: keys.append(key) or 1 / 0
    )
    for mode in ("unroll", "implicit", "unroll"):
        options = {"arrays": "torch", "differentiable": True, "mjx_solver_gradient": mode}
        with pytest.raises(ZeroDivisionError):
            runner_of(brax_env="inverted_pendulum", backend="mjx", **options)
    assert keys[0] == keys[2] != keys[1]


def test_settings_of_jax__separate() -> None:
    first = runner_of()
    with jax.default_matmul_precision("float32"):
        assert runner_of()[1] is not first[1]
    with jax.default_prng_impl("rbg"):
        assert runner_of()[1] is not first[1]
    with jax.enable_x64(True):
        wide, runner = runner_of()
        assert runner is not first[1]
        assert wide.reset(seed=0)[0].dtype == np.float64
    assert runner_of()[1] is first[1]


def test_users_class__is_never_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may read a file when it is built, or keep what it draws on itself."""
    monkeypatch.setitem(registered(), "users_own", SampleEnv)
    first, second = runner_of(brax_env="users_own"), runner_of(brax_env="users_own")
    assert first[1] is not second[1]
    assert first[0].get_attr("unwrapped")[0] is not second[0].get_attr("unwrapped")[0]


def test_another_class_of_the_same_name__separates(monkeypatch: pytest.MonkeyPatch) -> None:
    first = runner_of(backend="spring")
    monkeypatch.setitem(registered(), "fast", registered()["inverted_pendulum"])
    assert runner_of(backend="spring")[1] is not first[1]


def test_playground__shares_equal_configurations_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two names may be of one class."""
    suite, name, keys = registry.dm_control_suite, "CartpoleBalance", []

    def configure() -> Any:
        config = suite.get_default_config(name)
        config.episode_length = 7
        return config

    def stop(key: Any, *_: Any) -> None:
        keys.append(key)
        raise StopIteration  # before anything is traced

    monkeypatch.setitem(suite._envs, "ShortBalance", suite._envs[name])
    monkeypatch.setitem(suite._cfgs, "ShortBalance", configure)
    monkeypatch.setattr("gymbridge.playground.vector_env.share", stop)
    given = {"config": registry.get_default_config(name), "impl": "jax"}
    changes = [{}, {}, {"config_overrides": {"episode_length": 9}}, given]
    for env, change in [*((name, change) for change in changes), ("ShortBalance", {})]:
        with pytest.raises(StopIteration):
            PlaygroundVectorEnv(env, 2, **change)
    assert keys[0] == keys[1] is not None
    assert keys[3] is None
    assert keys[4] != keys[0] != keys[2] is not None


@pytest.mark.parametrize(
    "kwargs",
    [
        {"brax_env": SampleEnv()},
        {"brax_env": FallingBall(), "randomization_fn": draw},
        {"action_space": spaces.Box(-1, 1, (1,), np.float32)},
    ],
    ids=["environment", "function", "space"],
)
def test_what_may_change_unseen__is_never_shared(kwargs: dict[str, Any]) -> None:
    first, second = runner_of(**kwargs), runner_of(**kwargs)
    assert first[1] is not second[1]


MODE = AutoresetMode.DISABLED


def test_key__is_made_of_values_and_their_types() -> None:
    def key(task: Any, *choices: Any) -> Any:
        return make_key(task, JitRunner, *choices)

    assert key(int, 1, [True]) == key(int, 1, [True])
    values = (1, 1.0, True, "1", None, [1], (1,), {"a": 1}, {1: 1}, {True: 1}, MODE)
    assert len({key(int, value) for value in values}) == len(values)
    assert key(int, {"a": 1, "b": 2}) != key(int, {"b": 2, "a": 1})
    assert key(partial(int, base=2), 1) == key(partial(int, base=2), 1)
    assert key(partial(int, base=2)) != key(partial(int, base=3))
    assert key(int) != make_key(int, RaisingRunner)
    for unseen in (object(), np.zeros(2), len, int, {1, 2}, partial(int)):
        assert key(int, unseen) is None
    for task in ("int", len, None, partial(len)):
        assert key(task) is None


@pytest.mark.parametrize(
    ("env", "options"),
    [
        ("fast", {}),
        (FallingBall(), {"nonfinite": "raise"}),
        (FallingBall(), {"randomization_fn": draw}),
        (FallingBall(), {"arrays": "torch", "differentiable": True}),
    ],
    ids=["named", "own", "randomised", "gradients"],
)
def test_last_batch__drops_what_was_compiled(env: Any, options: dict[str, Any]) -> None:
    gc.collect()
    gc.disable()
    try:
        batches = [BraxVectorEnv(env, num_envs=2, **options) for _ in range(2)]
        for envs in batches:
            envs.reset(seed=0)
            envs.step(envs.action_space.sample())
        kept = [weakref.ref(batches[0]._runner), weakref.ref(batches[0]._simulator)]
        del envs
        batches.pop()
        assert [ref() is None for ref in kept] == [False, False]
        batches.pop()
        assert [ref() is None for ref in kept] == [True, True]
    finally:
        gc.enable()


def test_second_batch__is_built_in_another_thread_while_the_first_steps() -> None:
    first, runner = runner_of(num_envs=4)
    first.reset(seed=0)
    actions = np.zeros(first.action_space.shape, np.float32)
    found: list[Any] = []

    def build() -> None:
        envs, other = runner_of(num_envs=4)
        envs.reset(seed=0)
        found.append((other, [envs.step(actions)[0] for _ in range(20)]))

    threads = [threading.Thread(target=build) for _ in range(3)]
    for thread in threads:
        thread.start()
    seen = [first.step(actions)[0] for _ in range(20)]
    for thread in threads:
        thread.join()
    assert [other is runner for other, _ in found] == [True] * 3
    for _, observations in found:
        assert np.array_equal(observations, seen)
