"""The translations in `examples/suites` against the functions of the suites themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from gymbridge import JaxEnv, JaxVectorEnv
from tests.support.oracle import check_run
from tests.support.own_jax import make_oracle

NUM_ENVS = 4


class Suite(NamedTuple):
    """A translated environment, its own functions for one environment, and what a run has."""

    env: JaxEnv
    reset: Callable[..., Any]  # (key) -> (state, observation)
    step: Callable[..., Any]  # (key, state, action) -> (state, observation, reward, two flags)
    num_steps: int
    flags: set[str]  # which of the two flags the run shows
    limit: int | None = None


def make_func_env() -> Suite:
    from from_func_env import FromFuncEnv
    from gymnasium.envs.phys2d.cartpole import CartPoleFunctional

    env = CartPoleFunctional()

    def reset(key: Any) -> Any:
        state = env.initial(key)
        return state, env.observation(state, key)

    def step(key: Any, state: Any, action: Any) -> Any:
        after = env.transition(state, action, key)
        reward, over = env.reward(state, action, after, key), env.terminal(after, key)
        return after, env.observation(after, key), jnp.asarray(reward), over, over & False

    return Suite(FromFuncEnv(env), reset, step, 60, {"terminated"})


def make_jumanji() -> Suite:
    jumanji = pytest.importorskip("jumanji")
    from from_jumanji import FromJumanji

    env = jumanji.make("Snake-v1")

    def reset(key: Any) -> Any:
        state, first = env.reset(key)
        return state, first.observation

    def step(key: Any, state: Any, action: Any) -> Any:
        state, now = env.step(state, action)
        over = now.last()
        return state, now.observation, now.reward, over & (now.discount < 1), over & False

    return Suite(FromJumanji(env), reset, step, 60, {"terminated"})


def make_xminigrid() -> Suite:
    xminigrid = pytest.importorskip("xminigrid")
    from from_xminigrid import FromXMiniGrid

    env, params = xminigrid.make("MiniGrid-Empty-5x5")
    params = params.replace(max_steps=25)

    def reset(key: Any) -> Any:
        first = env.reset(params, key)
        return first, first.observation

    def step(key: Any, state: Any, action: Any) -> Any:
        now = env.step(params, state, action)
        is_late = now.last() & (now.state.step_num == 25)
        reached = now.reward > 0
        return now, now.observation, now.reward, reached, is_late & ~reached

    return Suite(FromXMiniGrid(env, params), reset, step, 150, {"terminated", "truncated"})


def make_craftax() -> Suite:
    module = pytest.importorskip("craftax.craftax_env")
    from from_craftax import FromCraftax

    env = module.make_craftax_env_from_name("Craftax-Classic-Symbolic-v1", auto_reset=False)
    params = env.default_params.replace(max_timesteps=12)

    def reset(key: Any) -> Any:
        obs, state = env.reset(key, params)
        return state, obs

    def step(key: Any, state: Any, action: Any) -> Any:
        obs, state, reward, over, _ = env.step(key, state, action, params)
        is_late = state.timestep >= 12
        return state, obs, reward, over & ~is_late, over & is_late

    return Suite(FromCraftax(env, params), reset, step, 30, {"truncated"}, limit=12)


def make_gymnax() -> Suite:
    gymnax = pytest.importorskip("gymnax")
    from from_gymnax import FromGymnax

    env, params = gymnax.make("CartPole-v1")
    params = params.replace(max_steps_in_episode=25)

    def reset(key: Any) -> Any:
        obs, state = env.reset_env(key, params)
        return state, obs

    def step(key: Any, state: Any, action: Any) -> Any:
        obs, state, reward, terminated, _ = env.step_env(key, state, action, params)
        return state, obs, reward, terminated, env.is_truncated(state, params)

    return Suite(FromGymnax(env, params), reset, step, 100, {"terminated", "truncated"})


MAKERS = [
    make_func_env,
    make_jumanji,
    make_gymnax,
    pytest.param(make_xminigrid, marks=pytest.mark.slow),
    pytest.param(make_craftax, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("make", MAKERS)
def test_translation__equals_the_suite_s_own_functions(make: Callable[[], Suite]) -> None:
    suite = make()
    envs = JaxVectorEnv(suite.env, NUM_ENVS, autoreset_mode="SameStep")
    assert envs.max_episode_steps == suite.limit
    oracle = make_oracle(envs, suite.reset, suite.step, range(NUM_ENVS))
    check_run(oracle, 2 * NUM_ENVS * suite.num_steps, seed=0)
    ends = {name: oracle.ends[name] for name in ("terminated", "truncated")}
    assert sum(ends.values()) > NUM_ENVS
    assert {name for name, count in ends.items() if count} == suite.flags


def test_gymnax__has_gradients_where_its_transitions_have() -> None:
    gymnax, torch = pytest.importorskip("gymnax"), pytest.importorskip("torch")
    from from_gymnax import FromGymnax

    env, params = gymnax.make("Pendulum-v1")
    grads = []
    for one in (env, env.with_transition_gradients()):
        envs = JaxVectorEnv(FromGymnax(one), 2, arrays="torch", differentiable=True)
        envs.reset(seed=0)
        actions = torch.full((2, 1), 0.1, requires_grad=True)
        envs.step(actions)
        observations, *_ = envs.step(torch.zeros(2, 1))
        observations.sum().backward()
        grads.append(actions.grad)
    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(2))
    assert not torch.as_tensor(grads[0]).any()
    assert torch.as_tensor(grads[1]).all()

    def total(action: Any, key: Any) -> Any:
        _, state = env.reset_env(jax.random.fold_in(key, 0), params)
        for act in (action, jnp.zeros(1)):
            one = env.with_transition_gradients()
            obs, state, *_ = one.step_env(key, state, act, params)
        return obs.sum()

    wanted = jax.vmap(jax.grad(total), (None, 0))(jnp.full(1, 0.1), keys)
    np.testing.assert_allclose(grads[1], wanted, rtol=1e-4)
