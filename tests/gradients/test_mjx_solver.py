"""Gradients pass MJX's solver in the way that was chosen, in the trace of the batch alone."""

from __future__ import annotations

import json
import threading
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from mujoco import mjx
from mujoco.mjx._src import solver

from gymbridge.errors import ArgumentError, EnvContractError
from gymbridge.private import mjx as mjx_private
from gymbridge.private.mjx import SolverGradient
from tests.support.mjx_chain import Chain
from tests.support.point_mass import PointMass, make_batch
from tests.support.python_runs import run_python

pytestmark = pytest.mark.long

SCRIPT = "tests.support.solver_gradients"


def trace(env: Chain, function: Any) -> str:
    """Return the trace of a function of the chain's physics and an action, as text."""
    data = jax.eval_shape(env.reset, jax.random.PRNGKey(0)).pipeline_state
    return str(jax.make_jaxpr(function)(data, jnp.zeros(3)))


def way_of(traced: str) -> str:
    """Return how a trace finds the constraint forces."""
    if "_custom_root" in traced:
        return "implicit"
    return "loop" if " while[" in traced else "unroll"


@pytest.mark.parametrize(
    ("iterations", "mode", "way"),
    [
        (10, "auto", "unroll"),
        (11, "auto", "implicit"),
        (11, "unroll", "unroll"),
        (1, "implicit", "implicit"),
    ],
)
def test_solver__goes_the_way_that_was_chosen(iterations: int, mode: str, way: str) -> None:
    env = Chain(iterations)
    assert way_of(trace(env, SolverGradient(mode).wrap(env.move))) == way


def test_solver__is_mjx_s_own_for_others() -> None:
    """In other threads, and after an error, while and after a differentiable step is traced."""
    env, plain = Chain(20), []

    def step_beside(data: Any, action: jax.Array) -> Any:
        other = threading.Thread(target=lambda: plain.append(trace(env, lambda *_: env.move(*_))))
        other.start()
        other.join()
        env.move(data, action)
        raise KeyError

    with pytest.raises(KeyError):
        trace(env, SolverGradient("auto").wrap(step_beside))
    plain.append(trace(env, env.move))
    assert list(map(way_of, plain)) == ["loop", "loop"]


BALL = """
<mujoco>
  <option timestep="0.02" iterations="30" cone="elliptic"/>
  <worldbody>
    <geom type="plane" size="1 1 1" friction="0.6"/>
    <body pos="0 0 0.0995">
      <joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint type="slide"/>
      <geom type="sphere" size="0.1" mass="1" friction="0.6"/>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.mark.slow
def test_gradient_through_elliptic_cones__is_that_of_forward_mode() -> None:
    """A ball slides over a floor and is pushed. Values are those of MJX's own solver."""
    model = mjx.put_model(mujoco.MjModel.from_xml_string(BALL))
    begin = mjx.make_data(model).replace(qvel=jnp.array([0.3, -0.2, 0]))
    pushes, along = 2 * jax.random.normal(jax.random.PRNGKey(0), (2, 5, 3))

    def slide(move: Any, pushes: jax.Array) -> Any:
        body = lambda data, push: (move(data.replace(qfrc_applied=push)), None)  # noqa: E731
        data, _ = jax.lax.scan(body, begin, pushes)
        return jnp.concatenate([data.qpos, data.qvel]) @ jnp.arange(1.0, 7)

    def step(data: Any) -> Any:
        return mjx.step(model, data)

    end, slope = jax.jit(lambda given: jax.jvp(partial(slide, step), (given,), (along,)))(pushes)
    implicit = partial(slide, SolverGradient("auto").wrap(step))
    found, gradient = jax.jit(jax.value_and_grad(implicit))(pushes)
    assert found == end
    size = jnp.linalg.norm(gradient) * jnp.linalg.norm(along)
    np.testing.assert_allclose((gradient * along).sum(), slope, atol=1e-3 * size)


@pytest.mark.parametrize(
    ("make_env", "mode", "options", "text"),
    [
        (PointMass, "scan", {}, r"one of \('auto', 'unroll', 'implicit'\), got 'scan'"),
        (PointMass, "unroll", {"differentiable": False}, "`differentiable=True`"),
        (PointMass, "implicit", {}, "PointMass does not run MJX's"),
        (partial(Chain, 20, is_free=True), "unroll", {}, "Chain does not run MJX's"),
        (
            partial(Chain, 2, cone="elliptic"),
            "unroll",
            {},
            r"'unroll'(.|\n)*elliptic(.|\n)*'implicit'",
        ),
    ],
)
def test_mode__that_is_unknown_or_impossible_is_an_error(
    make_env: Any, mode: str, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ArgumentError, match=text):
        make_batch(make_env(), mjx_solver_gradient=mode, **options)


class SelfCompiled(Chain):
    """It compiles its physics, which keep the solver of their first call."""

    def __init__(self, iterations: int) -> None:
        super().__init__(iterations)
        self.move = jax.jit(super().move)  # pyright: ignore[reportIncompatibleMethodOverride]


def test_solver_in_a_function_that_the_environment_compiled__is_an_error() -> None:
    env = SelfCompiled(20)
    make_batch(env, differentiable=False)
    with pytest.raises(EnvContractError, match=r"functions that SelfCompiled compiled itself"):
        make_batch(env)


def test_another_version_of_mjx__is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def solve(m: Any, d: Any) -> Any:
        del m
        return jax.lax.while_loop(lambda data: data.time < 0, lambda data: data, d)

    other = lambda m, d: solve(m, d)  # noqa: E731 - a loop is not among its own names
    for name, missing in (("Context", "Context.create"), ("solve", "solve with")):
        with monkeypatch.context() as patch:
            patch.setattr(mjx_private, "_install", mjx_private._install.__wrapped__)
            patch.setattr(solver, "solve", other)
            if name == "Context":
                patch.delattr(solver, "Context")
            text = rf"mujoco-mjx \S+ has no `solver\.{missing}(.|\n)*mujoco-mjx>=3\.17"
            with pytest.raises(EnvContractError, match=text):
                make_batch(Chain(20), mjx_solver_gradient="implicit")
            assert make_batch(PointMass()).num_envs == 4


@pytest.mark.slow
def test_gradients__are_those_of_forward_mode_where_the_solver_converges() -> None:
    """In float64, on a batch of chains; values are those of a plain batch to the last digit."""
    found = json.loads(run_python("-m", SCRIPT, JAX_ENABLE_X64="1").lines[-1])
    assert [figures["is_same"] for figures in found.values()] == [True, True]
    unrolled, implicit = (np.array(figures["errors"]) for figures in found.values())
    is_early = np.array(found["implicit"]["is_early"])
    assert {*is_early.tolist()} == {True, False}
    assert unrolled.max() < 1e-10
    assert implicit[~is_early].max() < 1e-7
    assert implicit[is_early].max() > 1e-3, "the solver stopped early, and no error shows it"
