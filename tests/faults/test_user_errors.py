"""Errors in a user's code: who is told what, and the batch goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("brax.envs")

import jax

from gymbridge import BraxVectorEnv
from gymbridge.errors import SimulationError
from tests.support.batches import KIND_LENGTHS, to_kind
from tests.support.falling_ball import FallingBall, draw
from tests.support.player import play
from tests.support.scripted_brax import ScriptedBraxEnv
from tests.support.trees import assert_same

slow = pytest.mark.slow


class UserError(Exception):
    """Raised by the user's code."""


class Failing(FallingBall):
    """Its `reset` or `step` raises while it is traced, once it is told to."""

    fails: str | None = None

    def reset(self, rng: Any) -> Any:
        self._check("reset")
        return super().reset(rng)

    def step(self, state: Any, action: Any) -> Any:
        self._check("step")
        return super().step(state, action)

    def _check(self, verb: str) -> None:
        if self.fails == verb:
            raise UserError(f"{verb} of mine")


class FailingInside(ScriptedBraxEnv):
    """Its step, and its render, raise when they run, once it is told to."""

    fails = False

    def step(self, state: Any, action: Any) -> Any:
        after = super().step(state, action)
        like = jax.ShapeDtypeStruct((), np.float32)
        obs = jax.pure_callback(self._check, like, after.obs, vmap_method="sequential")
        return replace(after, obs=obs)

    def render(self, state: Any) -> np.ndarray:
        self._check(state.obs)
        return super().render(state)

    def _check(self, value: Any) -> Any:
        if self.fails:
            raise UserError("inside")
        return np.asarray(value)


def test_construction__names_the_line_and_keeps_the_cause() -> None:
    """Other batches of the environment are unharmed."""
    env = Failing()
    own, options = env.sys, {"randomization_fn": draw}
    before = BraxVectorEnv(env, 3, **options)
    wanted = play(BraxVectorEnv(FallingBall(), 3, **options), 4)
    for verb in ("reset", "step"):
        env.fails = verb
        message = f"`{verb}` of the Brax environment Failing cannot be traced"
        with pytest.raises(SimulationError, match=message) as caught:
            BraxVectorEnv(env, 3, **options)
        assert isinstance(caught.value.__cause__, UserError)
        assert "faults/test_user_errors.py, line" in str(caught.value)
    env.fails = None
    assert env.sys is own
    for envs in (before, BraxVectorEnv(env, 3, **options)):
        assert_same(play(envs, 4), wanted)


@pytest.mark.parametrize(
    ("arrays", "mode"),
    [
        ("numpy", "NextStep"),
        pytest.param("torch", "SameStep", marks=slow),
        pytest.param("jax", "Disabled", marks=slow),
    ],
)
def test_step_that_fails_as_it_runs__was_not_taken(arrays: str, mode: str) -> None:
    pytest.importorskip(arrays)
    env = FailingInside(KIND_LENGTHS)
    options = {"arrays": arrays, "autoreset_mode": mode, "max_episode_steps": 4}
    envs, twin = BraxVectorEnv(env, 3, **options), BraxVectorEnv(env, 3, **options)
    actions = to_kind(np.ones(3, np.int64), arrays)
    for one in (envs, twin):
        one.reset(seed=3)
        one.step(actions)
    env.fails = True
    for _ in range(2):
        with pytest.raises(Exception, match="UserError: inside"):
            envs.step(actions)[0].tolist()
    env.fails = False
    for call in (lambda one: one.reset(), lambda one: one.step(actions)):
        np.testing.assert_array_equal(*(call(one)[0].tolist() for one in (envs, twin)))
    assert_same(play(envs, 6), play(twin, 6))


def test_render__that_fails_moves_nothing() -> None:
    env = FailingInside(KIND_LENGTHS)
    envs = BraxVectorEnv(env, 3, render_mode="rgb_array")
    envs.reset(seed=3)
    env.fails = True
    with pytest.raises(UserError, match=r"^inside$"):
        envs.render()
    env.fails = False
    assert len(envs.render()) == 3
    assert envs.step(np.zeros(3, int))[0].tolist() == [1] * 3
