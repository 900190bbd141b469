from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("brax")

import jax
from brax import envs as brax_envs

from gymbridge import BraxVectorEnv
from gymbridge.brax.tasks import BRAX_NAMES
from gymbridge.errors import SimulationError
from tests.support.brax_samples import under

pytestmark = pytest.mark.long

BACKENDS = ("generalized", "spring", "positional", "mjx")
WORKING = [name for name in BRAX_NAMES if name != "swimmer"]
NUM_ENVS = 4


def test_neighbours__of_restarting_and_diverging_rows_are_bit_exact() -> None:
    """The batch is one of the oracle's, so that it is compiled once for both."""
    envs = BraxVectorEnv("inverted_pendulum", NUM_ENVS, max_episode_steps=-1, backend="spring")
    rng = np.random.default_rng(5)
    plan = rng.uniform(-1, 1, (40, NUM_ENVS, 1)).astype(np.float32)

    def play(disturbed: bool) -> list[np.ndarray]:
        envs.reset(seed=2)
        seen = []
        for index, actions in enumerate(plan.copy()):
            if disturbed and index in (5, 9):
                envs.reset(seed=99, options=under(NUM_ENVS, 1))
            if disturbed:
                actions[1] = np.nan if index == 12 else 0.3
            obs, rewards, terminations, _, infos = envs.step(actions)
            seen.append((np.c_[obs, rewards, terminations], infos["nonfinite"]))
        assert np.array([flags for _, flags in seen])[:, 1].any() == disturbed
        assert np.array([values for values, _ in seen])[:, :, -1].any()
        return [np.delete(values, 1, axis=0) for values, _ in seen]

    np.testing.assert_array_equal(play(disturbed=True), play(disturbed=False), strict=True)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "inverted_pendulum" else pytest.mark.slow)
        for name in WORKING
        if name != "fast"
    ],
)
def test_action_space__reaches_from_the_lowest_to_the_highest_control(name: str) -> None:
    """The environment reports the control that it applies, whatever it makes of the action."""
    applied: list[np.ndarray] = []
    env_class: Any = brax_envs._envs[name]

    class Reporting(env_class):
        def pipeline_step(self, pipeline_state: Any, action: jax.Array) -> Any:
            jax.debug.callback(lambda control: applied.append(np.array(control)), action)
            return pipeline_state

    env = Reporting(backend="spring")
    envs = BraxVectorEnv(env, 1, autoreset_mode="Disabled")
    low, high = envs.single_action_space.low, envs.single_action_space.high
    assert (low.tolist(), high.tolist()) == ([-1] * env.action_size, [1] * env.action_size)
    envs.reset(seed=0)
    for action in (low, (low + high) / 2, high):
        envs.step(action[None])
        jax.effects_barrier()
    limits = np.asarray(env.sys.actuator.ctrl_range)
    expected = [limits[:, 0], limits.mean(1), limits[:, 1]]
    np.testing.assert_allclose(applied, expected, rtol=1e-6, atol=1e-7)
    assert (limits[:, 0] < limits[:, 1]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "backend"),
    [
        *((name, backend) for name in WORKING for backend in BACKENDS[:2]),
        *((name, backend) for name in ("ant", "humanoid", "reacher") for backend in BACKENDS[2:]),
    ],
)
def test_registered_env__keeps_the_rules_on_every_backend(name: str, backend: str) -> None:
    """They are checked as a batch is built.

    Positional and MJX have code of their own in ant and humanoid, and in no other task.
    """
    assert BraxVectorEnv(name, 3, backend=backend).max_episode_steps == 1000


def test_swimmer__fails_with_the_file_of_brax_that_is_broken() -> None:
    """Once this fails, Brax and JAX agree again: then `swimmer` belongs to `WORKING`."""
    with pytest.raises(SimulationError, match=r"brax/fluid\.py, line \d+, raised TypeError.*a_min"):
        BraxVectorEnv("swimmer")
    with pytest.raises(SimulationError, match="Unsupported backend: spring"):
        BraxVectorEnv("swimmer", backend="spring")
