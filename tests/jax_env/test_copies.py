"""Copies of a batch share what is compiled, and nothing else; a constructor shares nothing."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from brax.envs.fast import Fast

from gymbridge import BraxVectorEnv, JaxVectorEnv
from gymbridge.errors import ResetNeededError
from tests.support.falling_ball import FallingBall, draw
from tests.support.jax_samples import Glide

COPIES = pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])


def act(envs: Any) -> np.ndarray:
    return np.zeros(envs.action_space.shape, np.float32)


@COPIES
def test_copy__traces_and_compiles_nothing(
    duplicate: Callable[[Any], Any], caplog: pytest.LogCaptureFixture
) -> None:
    first = BraxVectorEnv("fast", 2, autoreset_mode="SameStep", max_episode_steps=3)
    first.reset(seed=0)
    first.step(act(first))
    first.set_state(first.get_state())
    second = duplicate(first)
    with caplog.at_level("INFO", "gymbridge"), jax.log_compiles():
        second.reset(seed=0)
        second.step(act(second))
        second.set_state(second.get_state())
    assert [record.message for record in caplog.records if "ompil" in record.message] == []
    assert repr(second) == repr(first)
    assert (second.autoreset_mode, second.max_episode_steps) == (first.autoreset_mode, 3)


def test_copies__have_states_of_their_own() -> None:
    first = BraxVectorEnv("fast", 2, max_episode_steps=2)
    first.reset(seed=0)
    first.note = 3
    drawn = first.np_random.random()
    second = copy.copy(first)
    with pytest.raises(ResetNeededError):
        second.step(act(second))
    assert second.note == 3  # as `copy.copy` of any object
    assert second.np_random is not first.np_random
    assert second.np_random.random() != drawn
    assert first.action_space.sample().tolist() != second.action_space.sample().tolist()
    for name in ("action_space", "single_action_space", "single_observation_space", "metadata"):
        assert getattr(first, name) is not getattr(second, name)
        assert getattr(first, name) == getattr(second, name)
    first.step(act(first))
    second.reset(seed=5)
    assert (first.np_random_seed, second.np_random_seed) == ((0, 1), (5, 6))
    assert not second.step(act(second))[3].any()
    assert first.step(act(first))[3].all()
    second.set_attr("mark", 3)
    with pytest.raises(AttributeError):
        first.get_attr("mark")
    second.close()
    assert not first.step(act(first))[3].any()
    again = copy.copy(second)  # of a closed batch
    again.reset(seed=5)
    assert not again.step(act(again))[3].any()


def test_named_environment_that_was_patched__is_what_a_constructor_traces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whenever a cell of a notebook runs again, while the batch of its last run lives."""
    first, plain = BraxVectorEnv("fast", 2), Fast.step
    first.reset(seed=0)

    def step(env: Any, state: Any, action: Any) -> Any:
        state = plain(env, state, action)
        return replace(state, reward=state.reward + 100)

    monkeypatch.setattr(Fast, "step", step)
    same = [first, copy.copy(first), copy.deepcopy(first)]
    new = [BraxVectorEnv("fast", 2), pickle.loads(pickle.dumps(first))]
    for envs in (*same, *new):
        envs.reset(seed=0)
        rewards = envs.step(act(envs))[1]
        assert np.array_equal(rewards, np.full(2, 100.0 if envs in new else 0.0)), envs


@pytest.mark.parametrize("precision", ["default", "float32"])
def test_copy_before_the_first_step__is_of_what_was_traced(
    monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    """Whatever JAX's settings are when the functions are compiled."""
    first = BraxVectorEnv("fast", 2)
    drawn = BraxVectorEnv(FallingBall(), 2, randomization_fn=draw)
    monkeypatch.setattr(Fast, "step", lambda env, state, action: 1 / 0)
    monkeypatch.setattr(FallingBall, "step", lambda env, state, action: 1 / 0)
    monkeypatch.setattr(FallingBall, "reset", lambda env, key: 1 / 0)
    for envs in (copy.copy(first), copy.copy(drawn)):
        with jax.default_matmul_precision(precision):
            envs.reset(seed=0)
            envs.step(act(envs))


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
def test_last_copy__drops_what_was_compiled(env: Any, options: dict[str, Any]) -> None:
    BraxVectorEnv(env, num_envs=2, **options)  # what the first one imports leaves circles
    gc.collect()
    gc.disable()
    try:
        batches = [BraxVectorEnv(env, num_envs=2, **options)]
        batches.append(copy.copy(batches[0]))
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


def test_copies__step_in_threads_of_their_own() -> None:
    first = BraxVectorEnv("fast", 4)
    first.reset(seed=0)
    found: list[Any] = []

    def run() -> None:
        envs = copy.copy(first)
        envs.reset(seed=0)
        found.append([envs.step(act(envs))[0] for _ in range(20)])

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    seen = [first.step(act(first))[0] for _ in range(20)]
    for thread in threads:
        thread.join()
    assert len(found) == 3
    for observations in found:
        assert np.array_equal(observations, seen)


@COPIES
def test_attributes_of_a_derived_class(duplicate: Callable[[Any], Any]) -> None:
    """As in any object: `deepcopy` copies them."""

    class Own(JaxVectorEnv):
        def __init__(self, goal: int) -> None:
            super().__init__(Glide(), 2)
            self.goal, self.limit = goal, 5
            self.seen, self.itself = np.zeros(2), [self]

        def step(self, actions: Any) -> Any:
            self.seen += 1
            return super().step(actions)

    first = Own(3)
    second = duplicate(first)
    assert (second.goal, second.limit) == (3, 5)
    second.reset(seed=0)
    second.step(act(second))
    is_deep = duplicate is copy.deepcopy
    assert first.seen.tolist() == [0.0 if is_deep else 1.0] * 2
    assert second.itself[0] is (second if is_deep else first)
