from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("brax")

import jax
import jax.numpy as jnp
from brax import envs as brax_envs
from brax_samples import under
from gymnasium.vector import AutoresetMode

from gymbridge import BraxVectorEnv
from gymbridge.brax.tasks import BRAX_NAMES
from gymbridge.brax.translation import translate
from gymbridge.core.episode import EpisodeRule, Seeds
from gymbridge.errors import SimulationError
from gymbridge.functional.simulator import FunctionalSimulator

BACKENDS = ("generalized", "spring", "positional", "mjx")
WORKING = [name for name in BRAX_NAMES if name != "swimmer"]
NUM_ENVS = 4
QUICK = ("inverted_pendulum", "reacher")


def _slow(*cases: Any) -> list[Any]:
    return [pytest.param(*case, marks=pytest.mark.slow) for case in cases]


@cache
def build(name: str, backend: str) -> BraxVectorEnv:
    return BraxVectorEnv(name, NUM_ENVS, backend=backend)


def _actions(envs: BraxVectorEnv, num_steps: int, scale: float) -> np.ndarray:
    rng = np.random.default_rng(5)
    return rng.uniform(-scale, scale, (num_steps, *envs.action_space.shape)).astype(np.float32)


def test_neighbours__of_restarting_and_diverging_rows_are_bit_exact() -> None:
    envs = build("inverted_pendulum", "spring")

    def play(disturbed: bool) -> list[np.ndarray]:
        envs.reset(seed=2)
        seen = []
        for index, actions in enumerate(_actions(envs, 40, 1)):
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
    [*QUICK, *_slow(*[[name] for name in WORKING if name not in (*QUICK, "fast")])],
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
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WORKING)
def test_registered_env__passes_the_rules_on_every_backend(name: str, backend: str) -> None:
    """Traced, not compiled: what goes into the next call of either rule is what came out."""
    env = translate(brax_envs.get_environment(name, backend=backend))
    simulator = FunctionalSimulator(env, 3, task_limit=1000)
    rule = EpisodeRule(simulator, AutoresetMode.SAME_STEP, 1000)
    mask, seeds = jnp.ones(3, bool), Seeds(jnp.zeros(3, jnp.uint32), jnp.ones(3, bool))
    first = jax.eval_shape(lambda: rule.reset(None, mask, seeds))
    actions = jax.ShapeDtypeStruct((3, *env.action_space.shape), jnp.float32)
    after = jax.eval_shape(rule.step, first.carry, actions)
    again = jax.eval_shape(lambda carry: rule.reset(carry, mask, seeds), after.carry)
    for one in (after, again):
        assert jax.tree.structure(one.carry) == jax.tree.structure(first.carry)
        for new, old in zip(jax.tree.leaves(one.carry), jax.tree.leaves(first.carry), strict=True):
            assert (new.shape, new.dtype, new.weak_type) == (old.shape, old.dtype, old.weak_type)
    obs, space = after.time_step.obs, env.observation_space
    assert (obs.shape, obs.dtype) == ((3, *space.shape), space.dtype)


def test_swimmer__fails_with_the_file_of_brax_that_is_broken() -> None:
    """Once this fails, Brax and JAX agree again: then `swimmer` belongs to `WORKING`."""
    with pytest.raises(SimulationError, match=r"brax/fluid\.py, line \d+, raised TypeError.*a_min"):
        BraxVectorEnv("swimmer")
    with pytest.raises(SimulationError, match="Unsupported backend: spring"):
        BraxVectorEnv("swimmer", backend="spring")
