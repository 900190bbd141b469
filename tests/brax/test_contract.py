from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("brax")

import jax
import jax.numpy as jnp
from brax import envs as brax_envs
from brax.envs.wrappers import training
from flax.core import FrozenDict
from gymnasium import spaces

from gymbridge import BraxVectorEnv
from gymbridge.errors import EnvContractError
from tests.support.brax_samples import SampleEnv, count_on, start
from tests.support.episode_runs import episodes


def _step_once(brax_env: Any, **kwargs: Any) -> tuple[Any, ...]:
    envs = BraxVectorEnv(brax_env, 3, autoreset_mode="Disabled", **kwargs)
    envs.reset(seed=0)
    return envs, *envs.step(np.ones(envs.action_space.shape, envs.action_space.dtype))


@pytest.mark.parametrize("mapping", [dict, FrozenDict])
def test_custom_env__with_nested_mapping_observations_has_dict_spaces(mapping: Any) -> None:
    def make_obs(count: Any) -> Any:
        return mapping(
            image=jnp.full((2, 2), 200, jnp.uint8),
            joints=mapping(flag=count > 0, velocity=jnp.stack([count, count]).astype(float)),
            steps=count,
        )

    envs, obs, *_ = _step_once(
        SampleEnv(
            lambda rng: start(rng, obs=make_obs(jnp.int32(0))),
            lambda state, action: count_on(state, action, obs=make_obs(jnp.int32(1))),
        )
    )
    ints = np.iinfo(np.int32)
    assert envs.single_observation_space == spaces.Dict(
        image=spaces.Box(0, 255, (2, 2), np.uint8),
        joints=spaces.Dict(
            flag=spaces.Box(0, 1, (), np.bool_),
            velocity=spaces.Box(-np.inf, np.inf, (2,), np.float32),
        ),
        steps=spaces.Box(ints.min, ints.max, (), np.int32),
    )
    assert type(obs) is type(obs["joints"]) is dict
    np.testing.assert_array_equal(obs["image"], np.full((3, 2, 2), 200, np.uint8), strict=True)
    np.testing.assert_array_equal(obs["joints"]["flag"], np.ones(3, bool), strict=True)
    velocity = np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(obs["joints"]["velocity"], velocity, strict=True)
    np.testing.assert_array_equal(obs["steps"], np.ones(3, np.int32), strict=True)
    assert obs in envs.observation_space


@pytest.mark.parametrize(
    ("before", "after"), [(False, True), (0, 1), (jnp.float16(0), jnp.float32(1))], ids=repr
)
def test_custom_env__may_use_any_type_for_rewards_and_ends(before: Any, after: Any) -> None:
    """A wider `done` after `step` than after `reset` is that of some of Brax's own under x64."""
    reward = int(after) * 2
    env = SampleEnv(
        lambda rng: start(rng, reward=0, done=jnp.asarray(before)),
        lambda state, act: count_on(state, act, reward=reward, done=jnp.asarray(after)),
    )
    _, _, rewards, terminations, truncations, _ = _step_once(env)
    np.testing.assert_array_equal(rewards, np.full(3, 2, np.float32), strict=True)
    np.testing.assert_array_equal(terminations, np.ones(3, bool), strict=True)
    assert not truncations.any()


@dataclasses.dataclass
class Tuned(SampleEnv):
    """It has no hash."""

    gain: float = 1.0

    def __post_init__(self) -> None:
        super().__init__()

    def step(self, state: brax_envs.State, action: jax.Array) -> brax_envs.State:
        return count_on(state, action, reward=self.gain)


def test_custom_env__is_taken_as_it_is_when_the_batch_is_built() -> None:
    env = Tuned()
    envs, _, rewards, *_ = _step_once(env)
    env.gain = 5.0
    _, _, later, *_ = _step_once(env)
    assert (rewards.tolist(), later.tolist()) == ([1.0] * 3, [5.0] * 3)
    assert envs.step(np.ones((3, 1)))[1].tolist() == [1.0] * 3


def test_restart__has_no_reward_and_no_flags_whatever_reset_returns(mode: str) -> None:
    def reset(rng: jax.Array) -> brax_envs.State:
        return start(rng, reward=jnp.asarray(5.0), done=jnp.asarray(1.0))

    def step(state: brax_envs.State, action: jax.Array) -> brax_envs.State:
        return count_on(state, action, done=1.0 * (state.obs[0] >= 1))

    envs = BraxVectorEnv(SampleEnv(reset, step), 1, autoreset_mode=mode)
    (found,) = episodes(envs, 9, act=lambda *_: np.ones((1, 1), np.float32), complete=2)
    for _, *steps in found:  # that a restart in NextStep has neither is checked by `episodes`
        assert [moment[1:4] for moment in steps] == [(1.0, False, False), (1.0, True, False)]


def _both(**parts: Any) -> SampleEnv:
    return _differing(parts, parts)


def _differing(at_reset: dict[str, Any], at_step: dict[str, Any]) -> SampleEnv:
    return SampleEnv(
        lambda rng: start(rng, **at_reset), lambda state, act: count_on(state, act, **at_step)
    )


REFUSED = {
    "more structure after step": (
        _differing({}, {"info": {"extra": 1.0}}),
        "`State.info['extra']` comes from `step` alone",
    ),
    "done is a vector": (_both(done=jnp.zeros(2)), "`State.done` must be a scalar"),
    "all is batched": (
        SampleEnv(lambda rng: jax.vmap(start)(jax.random.split(rng, 4))),
        "pass an unbatched environment",
    ),
    "reward is a dict": (_both(reward={"a": 0.0}), "`State.reward` must be a scalar"),
    "obs is a tuple": (_both(obs=(jnp.zeros(1),)), "`State.obs` must be an array or a mapping"),
    "obs is missing": (_both(obs=None), "`State.obs` must be an array or a mapping"),
    "obs is a bfloat16": (
        _both(obs=jnp.zeros(2, jnp.bfloat16)),
        "`State.obs` must have a bool, integer or float dtype of numpy, got bfloat16",
    ),
    "obs is a key": (
        SampleEnv(lambda rng: start(rng, obs=jax.random.wrap_key_data(rng))),
        "`State.obs` must have a bool, integer or float dtype of numpy, got key",
    ),
    "truncation is a vector": (
        _both(info={"truncation": jnp.zeros(2)}),
        "`State.info['truncation']` must be a scalar",
    ),
    "info is an array": (_both(info=jnp.zeros(2)), "`State.info` must be a dict"),
    "metrics are a list": (_both(metrics=[1.0]), "`State.metrics` must be a dict"),
    "reset returns no State": (
        SampleEnv(lambda rng: (jnp.zeros(2), {})),
        "`reset` must return a brax.envs.State, got tuple",
    ),
    "step returns no State": (
        SampleEnv(step=lambda state, act: state.obs),
        "`step` must return a brax.envs.State, got",
    ),
}


@pytest.mark.parametrize(("env", "message"), REFUSED.values(), ids=REFUSED)
def test_contract__a_broken_rule_is_named_with_the_leaf(env: SampleEnv, message: str) -> None:
    with pytest.raises(EnvContractError, match=re.escape(message)):
        BraxVectorEnv(env, 4)


class _OwnEpisodes(training.EpisodeWrapper):
    """A user's variant of a wrapper that must not be here."""


@pytest.mark.parametrize(
    "wrap",
    [
        training.VmapWrapper,
        training.EvalWrapper,
        lambda env: brax_envs.Wrapper(training.AutoResetWrapper(env)),
        lambda env: _OwnEpisodes(env, 10, 1),
    ],
)
def test_contract__training_wrappers_are_refused(wrap: Any) -> None:
    with pytest.raises(EnvContractError, match=r"must not be wrapped in Brax's \w+Wrapper"):
        BraxVectorEnv(wrap(SampleEnv()), 4)
