"""Gradients with respect to options of `reset`, such as a chosen start."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from brax import envs as brax_envs

from gymbridge import BraxVectorEnv
from gymbridge.errors import ArgumentTypeError, EnvContractError
from tests.support.point_mass import NUM_ENVS, Motion, Started, make_batch

SPEED = torch.full((NUM_ENVS, 2), 0.1)


class Looping(Started):
    """Its reset iterates in a loop, which reverse mode cannot pass."""

    def pipeline_init(self, q: Any, qd: Any) -> Motion:
        return Motion(jax.lax.while_loop(lambda x: (x > 9).all(), lambda x: x / 2, q), qd)


@pytest.fixture(scope="module", params=["cpu", "cpu:all"])
def started(request: pytest.FixtureRequest) -> BraxVectorEnv:
    return make_batch(Started(), max_episode_steps=6, device=request.param)


def places(**options: Any) -> torch.Tensor:
    return torch.linspace(-0.4, 0.4, 2 * NUM_ENVS, **options).reshape(NUM_ENVS, 2)


def gradient_of_jax(place: torch.Tensor, action: float) -> np.ndarray:
    """Return that of the observations of a reset and a step, summed, by plain JAX."""
    env = Started()
    begun = env.reset(jax.random.PRNGKey(0))

    def total(q: Any) -> Any:
        motion = Motion(q, jnp.asarray(SPEED[0]))
        state = begun.replace(pipeline_state=motion)
        return env._obs(motion).sum() + env.step(state, jnp.full(2, action)).obs.sum()

    return np.asarray(jax.vmap(jax.grad(total))(jnp.asarray(place.detach())))


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_gradient__is_that_of_plain_jax(
    started: BraxVectorEnv, is_first: bool, dtype: torch.dtype
) -> None:
    place = places(requires_grad=True, dtype=dtype)
    seed = 1 if is_first else None  # given seeds need nothing of what was before
    started.reset(seed=0)
    obs, _ = started.reset(seed=seed, options={"q": place, "qd": SPEED})
    after, *_ = started.step(torch.full((NUM_ENVS, 2), 0.3))
    (gradient,) = torch.autograd.grad(obs.sum() + after.sum(), place)
    assert gradient.dtype == dtype
    rtol = 1e-3 if dtype == torch.float16 else 1e-5
    np.testing.assert_allclose(gradient, gradient_of_jax(place.float(), 0.3), rtol=rtol)


def test_values__are_those_without_a_graph(started: BraxVectorEnv) -> None:
    plain, infos = started.reset(seed=3, options={"q": places(), "qd": SPEED})
    place, speed = places(requires_grad=True), SPEED.clone().requires_grad_()
    obs, found = started.reset(seed=3, options={"q": place, "qd": speed})
    assert torch.equal(obs.detach(), plain)
    assert found.keys() == infos.keys()
    with torch.no_grad():
        assert not started.reset(options={"q": place})[0].requires_grad


def test_partial_reset__leaves_the_graph_of_other_rows(started: BraxVectorEnv) -> None:
    started.reset(seed=0)
    action = torch.full((NUM_ENVS, 2), 0.2, requires_grad=True)
    started.step(action)
    place, mask = places(requires_grad=True), torch.tensor([True, False, True, False])
    obs, _ = started.reset(options={"q": place, "reset_mask": mask})
    of_action, of_place = torch.autograd.grad(obs.sum(), (action, place))
    assert (of_place[mask] != 0).any(1).all()
    assert (of_action[~mask] != 0).any(1).all()
    assert not of_place[~mask].any()
    assert not of_action[mask].any()


def test_reset_that_iterates__is_refused_and_changes_nothing() -> None:
    envs = make_batch(Looping())
    envs.reset(seed=0)
    before = envs.get_state()
    with pytest.raises(EnvContractError, match=r"A gradient of `options` .* `lax.while_loop`"):
        envs.reset(options={"q": places(requires_grad=True)})
    for name, leaf in envs.get_state().leaves.items():
        np.testing.assert_array_equal(leaf, before.leaves[name])


def test_batch_without_gradients__refuses_a_graph() -> None:
    envs = BraxVectorEnv(Started(), NUM_ENVS, arrays="torch")
    with pytest.raises(
        ArgumentTypeError, match=r"(?s)`options\['q'\]` must be an array.*requires grad"
    ):
        envs.reset(seed=0, options={"q": places(requires_grad=True)})


@pytest.mark.slow
def test_gradient__passes_the_solver_of_mjx() -> None:
    """The reset of an MJX environment runs its solver, too."""
    options: Any = {"backend": "mjx", "arrays": "torch", "differentiable": True}
    envs = BraxVectorEnv("inverted_pendulum", 2, mjx_solver_gradient="implicit", **options)
    start = torch.tensor([[0.01, 0.02], [0.04, -0.03]], requires_grad=True)
    envs.reset(seed=0, options={"qpos": start, "qvel": torch.zeros(2, 2)})
    obs, *_ = envs.step(torch.full((2, 1), 0.2))
    (gradient,) = torch.autograd.grad(obs.sum(), start)
    env: Any = brax_envs.get_environment("inverted_pendulum", backend="mjx")
    begun = jax.jit(env.reset)(jax.random.PRNGKey(0))

    def total(qpos: Any) -> Any:
        state = begun.replace(pipeline_state=env.pipeline_init(qpos, jnp.zeros(2)))
        return env.step(state, jnp.full(1, 0.2)).obs.sum()

    wanted = jax.vmap(jax.jacfwd(total))(jnp.asarray(start.detach()))
    np.testing.assert_allclose(gradient, wanted, rtol=1e-3)
