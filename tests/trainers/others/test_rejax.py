"""A batch with gymnax's calls, beside the batch itself, under gymnax's wrappers and rejax."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rejax
from gymnasium.spaces import Box, Discrete
from gymnax.environments import spaces
from gymnax.wrappers.purerl import FlattenObservationWrapper, LogWrapper
from to_gymnax import ToGymnax

from gymbridge import JaxEnv, JaxVectorEnv

NUM_ENVS, NUM_STEPS = 3, 20
KEYS = jax.random.split(jax.random.PRNGKey(1), NUM_ENVS)
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "train-in-jax.md"


class Walk(JaxEnv):
    """A walk on a line, seen twice; it ends beyond 3."""

    observation_space = Box(-9, 9, (2, 1))
    action_space = Discrete(3)

    def reset(self, key: Any) -> Any:
        place = jax.random.uniform(key)
        return place, self._see(place), {}

    def step(self, key: Any, state: Any, action: Any) -> Any:
        place = state + action - 1 + jax.random.normal(key)
        return place, self._see(place), place, jnp.abs(place) > 3, False, {}

    def _see(self, place: Any) -> Any:
        return jnp.full((2, 1), place)


def make_batch(num_envs: int = 1, **options: Any) -> JaxVectorEnv:
    options = {"max_episode_steps": 6, "autoreset_mode": "SameStep", **options}
    return JaxVectorEnv(Walk(), num_envs, **options)


def test_calls_of_purejaxrl__are_those_of_the_batch() -> None:
    """Its scripts map these wrappers over environments, and scan the steps."""
    env = LogWrapper(FlattenObservationWrapper(ToGymnax(make_batch(arrays="jax"))))
    assert env.observation_space(None).shape == (2,)
    assert env.action_space(None).n == 3

    def step(now: Any, key: Any) -> Any:
        state, _ = now
        actions = jax.random.randint(key, (NUM_ENVS,), 0, 3)
        keys = jax.random.split(key, NUM_ENVS)
        obs, state, *others = jax.vmap(env.step, (0, 0, 0, None))(keys, state, actions, None)
        return (state, obs), (actions, obs, *others)

    first, state = jax.vmap(env.reset, (0, None))(KEYS, None)
    steps = jax.random.split(KEYS[0], NUM_STEPS)
    _, (actions, obs, rewards, done, infos) = jax.lax.scan(step, (state, first), steps)

    envs = make_batch(NUM_ENVS)
    seen, _ = envs.reset(seed=[int(jax.random.bits(key, (1,))[0]) for key in KEYS])
    np.testing.assert_array_equal(first, seen.reshape(NUM_ENVS, -1))
    totals, ends = np.zeros(NUM_ENVS), set()
    for index in range(NUM_STEPS):
        seen, reward, terminated, truncated, _ = envs.step(np.asarray(actions[index]))
        np.testing.assert_array_equal(obs[index], seen.reshape(NUM_ENVS, -1))
        np.testing.assert_array_equal(rewards[index], reward)
        over = terminated | truncated
        np.testing.assert_array_equal(done[index], over)
        totals += reward
        returned = infos["returned_episode_returns"][index]
        np.testing.assert_allclose(returned[over], totals[over], rtol=1e-5)
        totals[over] = 0
        ends |= {*terminated[over]}
    assert ends == {True, False}


def test_trainer__has_spaces_and_the_limit_in_gymnax_s_terms() -> None:
    env = ToGymnax(make_batch(arrays="jax"))
    assert env.default_params.max_steps_in_episode == 6
    assert isinstance(env.action_space(None), spaces.Discrete)
    seen = env.observation_space(None)
    assert (seen.shape, seen.low.max(), seen.high.min()) == ((2, 1), -9, 9)


def test_discrete_actions__are_numbered_from_zero() -> None:
    class Shifted(Walk):
        action_space = Discrete(3, start=5)

        def step(self, key: Any, state: Any, action: Any) -> Any:
            return state, self._see(state), action * 1.0, False, False, {}

    options: Any = {"autoreset_mode": "SameStep", "arrays": "jax"}
    env = ToGymnax(JaxVectorEnv(Shifted(), **options))
    _, carry = env.reset(KEYS[0])
    assert env.action_space(None).n == 3
    assert [env.step(None, carry, jnp.array(action))[2] for action in range(3)] == [5, 6, 7]


def test_batch__of_several_or_of_another_mode_is_refused() -> None:
    for options, found in (
        ({"num_envs": 2}, "2, 'Same"),
        ({"autoreset_mode": "NextStep"}, "1, 'N"),
    ):
        with pytest.raises(ValueError, match=f"one environment, in SameStep, got .{found}"):
            ToGymnax(make_batch(arrays="jax", **options))


def test_rejax__is_created_while_jax_traces() -> None:
    """It copies its configuration deeply, the environment with it."""
    env = ToGymnax(make_batch(arrays="jax"))

    def train(rate: Any) -> Any:
        sizes = {"total_timesteps": 64, "eval_freq": 64, "num_envs": 4, "num_steps": 16}
        trainer = rejax.PPO.create(env=env, learning_rate=rate, num_minibatches=2, **sizes)
        return trainer.train(jax.random.PRNGKey(0))[1]

    lengths, _ = jax.jit(jax.vmap(train))(jnp.array([1e-3, 1e-2]))
    assert lengths.shape == (2, 2, 128)
    assert 0 < lengths.min() <= lengths.max() == 6


@pytest.mark.slow
def test_page__trains_the_pendulum(capsys: pytest.CaptureFixture[str]) -> None:
    [code] = re.findall(r"<!-- rejax -->\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    first, *_, last = names["returns"].mean(2).T
    assert (first < -1000).all()
    assert (last > -300).all()
    assert capsys.readouterr().out
