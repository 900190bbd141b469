"""While an environment is traced with other physics, nobody else sees them, whatever happens."""

from __future__ import annotations

import threading
from typing import Any

import jax
import numpy as np
import pytest

from gymbridge import BraxVectorEnv
from gymbridge.errors import EnvContractError, SimulationError
from tests.support.brax_samples import SampleEnv
from tests.support.falling_ball import FallingBall, Model, draw, make_ball


class Branching(FallingBall):
    """It asks a leaf of its model for a Python bool."""

    def step(self, state: Any, action: jax.Array) -> Any:
        assert self.sys.link.mass > 0
        return super().step(state, action)


def test_leaf_as_a_number_of_python__is_an_error_that_says_so() -> None:
    BraxVectorEnv(Branching(), 2)
    with pytest.raises(SimulationError, match=r"as a Python number. TracerBool"):
        BraxVectorEnv(Branching(), 2, randomization_fn=draw)


class SelfCompiled(FallingBall):
    """It compiles a function of its own, which keeps the model of its first call."""

    def __init__(self) -> None:
        super().__init__()
        self.fall = jax.jit(lambda speed: speed + 0.1 * self.sys.gravity[2])

    def step(self, state: Any, action: jax.Array) -> Any:
        after = super().step(state, action)
        return after.replace(reward=self.fall(state.obs[1]))


def test_function_that_the_environment_compiled__is_an_error() -> None:
    BraxVectorEnv(SelfCompiled(), 2)
    with pytest.raises(
        EnvContractError, match=r"no effect in functions that SelfCompiled \(backend"
    ):
        BraxVectorEnv(SelfCompiled(), 2, randomization_fn=draw)


def draw_gravity(model: Any, key: jax.Array) -> dict[str, Any]:
    return {"gravity": model.gravity * jax.random.uniform(key)}


class Static(FallingBall):
    """It uses leaves of its model, which do not vary, as numbers of Python."""

    def step(self, state: Any, action: jax.Array) -> Any:
        for _ in range(int(self.sys.link.mass)):
            state = super().step(state, action)
        return state


def test_other_leaves__stay_what_they_are() -> None:
    envs = BraxVectorEnv(Static(), 2, randomization_fn=draw_gravity)
    envs.reset(seed=0)
    assert envs.step(np.zeros((2, 1)))[4]["randomization"].keys() == {"gravity", "_gravity"}


def test_paths_that_two_leaves_share__cannot_vary() -> None:
    env = SampleEnv(sys={"a": {"b": np.float32(1)}, "a.b": np.float32(1)})
    with pytest.raises(EnvContractError, match=r"two leaves of the model have the path 'a.b'"):
        BraxVectorEnv(env, randomization_fn=lambda model, key: {"a.b": jax.numpy.float32(2)})


class Waiting(FallingBall):
    """Its trace with drawn gravity waits until another thread has tried to trace it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_drawn, self.may_go_on = threading.Event(), threading.Event()

    def step(self, state: Any, action: jax.Array) -> Any:
        if isinstance(self.sys.gravity, jax.core.Tracer) and not self.is_drawn.is_set():
            self.is_drawn.set()
            self.may_go_on.wait(1)
        return super().step(state, action)


def test_batch_in_another_thread__has_the_environment_s_own_model() -> None:
    env = Waiting()
    made: dict[str, Any] = {}

    def build(name: str, **options: Any) -> None:
        made[name] = BraxVectorEnv(env, 2, autoreset_mode="Disabled", **options)

    drawing = threading.Thread(target=build, args=("drawn",), kwargs={"randomization_fn": draw})
    drawing.start()
    assert env.is_drawn.wait(60)
    plain = threading.Thread(target=build, args=("plain",))
    plain.start()
    plain.join(0.5)
    env.may_go_on.set()
    drawing.join(60)
    plain.join(60)
    actions = np.full((2, 1), 0.5, np.float32)
    wanted = make_ball(2, model=Model(), randomization_fn=None, autoreset_mode="Disabled")
    results = []
    for envs in (made["plain"], wanted):
        envs.reset(seed=0)
        results.append([envs.step(actions)[0] for _ in range(3)])
    np.testing.assert_array_equal(*results)
    assert "randomization" in made["drawn"].reset(seed=0)[1]
